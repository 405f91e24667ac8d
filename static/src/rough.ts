// Every head's figures at another threshold, from the overview's bytes: N in steps of 1/255, so a pair within
// 0.002 of the threshold may fall on either side. Shown while a slider moves; the exact ones follow.
import { mapAt, type Answer, type Summary } from "./answer";

export function roughSummary(overview: Answer, threshold: number): Summary[][] {
  const limit = Math.max(1, Math.ceil(255 * threshold - 0.5));
  const bytes = overview.similarities as Uint8Array;
  return overview.summary!.map((row, l) =>
    row.map((known, h) => ({
      ...known,
      ...countHigh(mapAt(bytes, overview, l, h), overview, limit),
    })),
  );
}

type Counted = Pick<
  Summary,
  | "high_pairs"
  | "repeated_share"
  | "same_sentence_share"
  | "repeated_same_sentence_share"
  | "mean_distance"
  | "focal_position"
  | "focal_share"
>;

function countHigh(bytes: Uint8Array, { encoding: { ids, sentences } }: Answer, limit: number): Counted {
  const T = ids.length;
  let count = 0,
    repeated = 0,
    within = 0,
    both = 0,
    distance = 0;
  const contains = new Map<number, number>();
  for (let i = 0; i < T; i++)
    for (let j = i + 1; j < T; j++) {
      if (bytes[i * T + j]! < limit) continue;
      const same = ids[i] === ids[j],
        near = sentences[i] === sentences[j];
      count++;
      distance += j - i;
      if (same) repeated++;
      else contains.set(ids[j]!, (contains.get(ids[j]!) ?? 0) + 1);
      contains.set(ids[i]!, (contains.get(ids[i]!) ?? 0) + 1);
      if (near) within++;
      if (same && near) both++;
    }
  let focal = -1,
    most = 0;
  if (count)
    ids.forEach((id, t) => {
      const times = contains.get(id) ?? 0;
      if (times > most) ((most = times), (focal = t));
    });
  const share = (part: number): number | null => (count ? part / count : null);
  return {
    high_pairs: count,
    repeated_share: share(repeated),
    same_sentence_share: share(within),
    repeated_same_sentence_share: share(both),
    mean_distance: share(distance),
    focal_position: focal < 0 ? null : focal,
    focal_share: share(most),
  };
}
