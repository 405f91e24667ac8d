// One line about one cell of a head's maps.
import { isRectangular, type Axis, type Head } from "./analysis";
import { format } from "./scale";

type Cell = readonly [row: number, column: number];

// Describes an attention of a cross head, from a token of the target to one of the text.
function describeCross({ axis, columns, attention, weighted }: Head, [row, column]: Cell): string {
  const at = row * columns.n + column;
  return [
    `target ${axis.labels[row]} ${axis.positions[row]} → text ${columns.labels[column]} ${columns.positions[column]}`,
    `A ${format(attention[at])}`,
    ...(weighted ? [`A‖f‖ ${format(weighted[at])}`] : []),
  ].join("   ");
}

// And the similarity of two tokens of the target.
export const describeTargets = ({ axis, similarity, normalized }: Head, [row, column]: Cell): string =>
  [
    `target ${axis.labels[row]} ${axis.positions[row]} and ${axis.labels[column]} ${axis.positions[column]}`,
    `S ${format(similarity[row * axis.n + column])}`,
    `N ${format(normalized[row * axis.n + column])}`,
  ].join("   ");

// An entry by its token and position, a block of tokens by its first and last position.
export const nameIn = ({ groups, labels, positions }: Axis, t: number, part?: Head["part"]): string =>
  part === "pooled" ? `${groups[t]?.[0]}–${groups[t]?.at(-1)}` : `${labels[t]} ${positions[t]}`;

export function describeCell(head: Head, [row, column]: Cell): string {
  if (isRectangular(head)) return describeCross(head, [row, column]);
  const { axis, columns, part } = head;
  const at = row * columns.n + column;
  const distance = Math.abs(columns.positions[column]! - axis.positions[row]!);
  const parts = [
    `${nameIn(axis, row, part)} → ${nameIn(columns, column, part)}`,
    `A ${format(head.attention[at])}`,
    ...(head.weighted ? [`A‖f‖ ${format(head.weighted[at])}`] : []),
  ];
  if (part === "pooled") parts.push(`S ${format(head.similarity[at])}`);
  else if (distance === 0) {
    parts.push("S 0 (diagonal)"); // as defined, in the picture and in every file
    if (head.own) parts.push(`‖O‖² ${format(head.own[row])}`);
  } else {
    parts.push(`S ${format(head.similarity[at])}`, `N ${format(head.normalized[at])}`, `distance ${distance}`);
    if (axis.keys[row] === columns.keys[column]) parts.push("same token");
    parts.push(axis.sentences[row] === columns.sentences[column] ? "same sentence" : "other sentence");
  }
  return parts.join("   ");
}
