// A head's maps of two passes, texts or models, and their difference: of attention, or of similarity.
import { useMemo } from "preact/hooks";
import type { Entry } from "../app/cache";
import { isCross } from "../app/stacks";
import { headsOf } from "../heads/heads";
import type { Head } from "../maps/analysis";
import { MapTrio, type Pair, type Wording } from "../maps/map-trio";
import { useApp } from "../ui/context";
import { StateSegmented } from "../ui/state-controls";

// `similarity`: N compares heads whose sizes differ; S shows a change of size, which N hides.
export function useTwoMaps(
  wording: Wording,
  similarity: "normalized" | "similarity",
  [first, second]: readonly [Entry | null, Entry | null],
  keeps = false, // the last maps, while the next are computed
): { trio: MapTrio; pair: Pair | null; waiting: Entry | undefined } {
  const app = useApp();
  const trio = useMemo(() => {
    const values = (head: Head): Float32Array => (app.state.what === "attention" ? head.attention : head[similarity]);
    return new MapTrio(app, wording, values);
  }, [app]);
  const last = useMemo(() => ({ pair: null as Pair | null }), []);
  const waiting = [first, second].find((entry) => entry && entry.status !== "ready") ?? undefined;
  const heads = headsOf(app);
  const now =
    first?.answer && second?.answer ? trio.of(heads.exactHead(first.answer), heads.exactHead(second.answer)) : null;
  last.pair = now ?? (keeps && waiting?.status === "loading" ? last.pair : null);
  return { trio, pair: last.pair, waiting };
}

// Chooses the kind of map, and its scale. Cross heads are compared by similarity, whose map is square.
export function MapControls({ similarity }: { similarity: string }) {
  const kinds = [
    { value: "similarity", label: similarity },
    ...(isCross(useApp().state) ? [] : [{ value: "attention", label: "Attention" } as const]),
  ] as const;
  return (
    <>
      <StateSegmented field="what" choices={kinds} />
      <StateSegmented field="scale" />
    </>
  );
}
