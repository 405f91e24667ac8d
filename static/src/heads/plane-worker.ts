// Lays distances out in the plane, off the main thread: one reply an order.
import { planeOf, type Plane } from "./mds";

export interface PlaneOrder {
  key: number;
  D: Float32Array;
  n: number;
}
export interface PlaneReply {
  key: number;
  plane: Plane;
}

onmessage = ({ data: { key, D, n } }: MessageEvent<PlaneOrder>) =>
  postMessage({ key, plane: planeOf(D, n) } satisfies PlaneReply);
