// One line about one cell of a head's maps.
import type { Head } from "./analysis";
import { format } from "./scale";

export function describeCell(head: Head, [row, column]: readonly [number, number]): string {
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
