// Distances of high pairs as bars, with the numbers expected by chance as a dashed line.
import { useRef, useState } from "preact/hooks";
import { useResize } from "../../ui/resize";

const HEIGHT = 150,
  WIDTH = 480, // before it is laid out
  LEFT = 44, // for the numbers of pairs
  RIGHT = 8,
  TOP = 8,
  FOOT = 36, // for the distances
  BAR_MOST = 40;

// Steps of 1, 2 or 5 times a power of ten, `most` of them at most. Tokens and pairs are counted, so none is below 1.
export function ticksTo(top: number, most: number): number[] {
  const power = 10 ** Math.max(0, Math.floor(Math.log10(top / most)));
  const step = power * ([1, 2, 5].find((n) => top / (n * power) <= most) ?? 10);
  return Array.from({ length: Math.floor(top / step) + 1 }, (_, n) => n * step);
}

// Both by distance, from 0.
export function Histogram({ counts, chance }: { counts: Uint32Array; chance: readonly number[] }) {
  const place = useRef<SVGSVGElement>(null);
  const [width, setWidth] = useState(WIDTH);
  useResize(place, (size) => setWidth(size.width || width));
  const distances = Array.from(counts, (_, d) => d).slice(1);
  const step = (width - LEFT - RIGHT) / Math.max(1, distances.length);
  const top = [...counts.subarray(1), ...chance.slice(1)].reduce((most, n) => Math.max(most, n), 1);
  const x = (d: number): number => LEFT + (d - 0.5) * step;
  const y = (n: number): number => HEIGHT - FOOT - ((HEIGHT - FOOT - TOP) * n) / top;
  const wide = Math.min(BAR_MOST, 0.9 * step);
  const bars = distances
    .filter((d) => counts[d])
    .map((d) => `M${x(d) - wide / 2} ${y(0)}V${y(counts[d] ?? 0)}h${wide}V${y(0)}`);
  return (
    <svg
      class="chart"
      role="img"
      aria-label="Histogram of distances of high pairs"
      ref={place}
      viewBox={`0 0 ${width} ${HEIGHT}`}
    >
      {ticksTo(top, 4).map((n) => (
        <g key={n}>
          <line x1={LEFT} x2={width - RIGHT} y1={y(n)} y2={y(n)} />
          <text x={LEFT - 6} y={y(n) + 4} text-anchor="end">
            {n.toLocaleString("en")}
          </text>
        </g>
      ))}
      <path d={bars.join("")} />
      <polyline points={distances.map((d) => `${x(d)},${y(chance[d] ?? 0)}`).join(" ")} />
      {ticksTo(distances.length, 8)
        .slice(1)
        .map((d) => (
          <text key={d} x={x(d)} y={HEIGHT - FOOT + 14} text-anchor="middle">
            {d}
          </text>
        ))}
      <text x={(LEFT + width - RIGHT) / 2} y={HEIGHT - 6} text-anchor="middle">
        Distance in tokens
      </text>
    </svg>
  );
}
