// One line about one cell of a head's maps.
import { isRectangular, type Head } from "./analysis";
import { format } from "./scale";

type Cell = readonly [row: number, column: number];

// Describes an attention of a cross head, from a token of the target to one of the text.
export function describeCross({ axis, columns, attention, weighted }: Head, [row, column]: Cell): string {
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

export function describeCell(head: Head, [row, column]: Cell): string {
  if (isRectangular(head)) return describeCross(head, [row, column]);
  const { axis } = head;
  const at = row * axis.n + column;
  const distance = Math.abs(axis.positions[column]! - axis.positions[row]!);
  const parts = [
    `${axis.labels[row]} ${axis.positions[row]} → ${axis.labels[column]} ${axis.positions[column]}`,
    `A ${format(head.attention[at])}`,
    ...(head.weighted ? [`A‖f‖ ${format(head.weighted[at])}`] : []),
  ];
  if (row === column) {
    parts.push("S 0 (diagonal)"); // as defined, in the picture and in every file
    if (head.own) parts.push(`‖O‖² ${format(head.own[row])}`);
  } else {
    parts.push(`S ${format(head.similarity[at])}`, `N ${format(head.normalized[at])}`, `distance ${distance}`);
    if (axis.keys[row] === axis.keys[column]) parts.push("same token");
    parts.push(axis.sentences[row] === axis.sentences[column] ? "same sentence" : "other sentence");
  }
  return parts.join("   ");
}
