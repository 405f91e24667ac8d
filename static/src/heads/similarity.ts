// One head's similarity in the overview, computed from the head's outputs O: T x d numbers travel instead of
// T x T, and negative similarities survive. Runs in the worker.

// S = O O' [T][T] with diagonal 0, in the array given. Two rows by four at a time: eight sums that do not wait for each other. At the edge
// the last row stands in for those beyond it.
export function similarityOf(outputs: Float32Array, T: number, S = new Float32Array(T * T)): Float32Array {
  const d = T ? outputs.length / T : 0;
  const row = (i: number): number => Math.min(i, T - 1);
  const put = (i: number, j: number, value: number): void => {
    S[row(i) * T + row(j)] = value;
  };
  for (let i = 0; i < T; i += 2)
    for (let j = i; j < T; j += 4) {
      const [a, b] = [i * d, row(i + 1) * d];
      const [p, q, r, s] = [j * d, row(j + 1) * d, row(j + 2) * d, row(j + 3) * d];
      let ap = 0, aq = 0, ar = 0, as = 0, bp = 0, bq = 0, br = 0, bs = 0; // prettier-ignore
      for (let k = 0; k < d; k++) {
        const x = outputs[a + k]!, y = outputs[b + k]!; // prettier-ignore
        const u = outputs[p + k]!, v = outputs[q + k]!, w = outputs[r + k]!, z = outputs[s + k]!; // prettier-ignore
        // prettier-ignore
        { ap += x * u; aq += x * v; ar += x * w; as += x * z; bp += y * u; bq += y * v; br += y * w; bs += y * z; }
      }
      [ap, aq, ar, as].forEach((sum, k) => put(i, j + k, sum));
      [bp, bq, br, bs].forEach((sum, k) => put(i + 1, j + k, sum));
    }
  for (let i = 0; i < T; i++) {
    S[i * T + i] = 0;
    for (let j = 0; j < i; j++) S[i * T + j] = S[j * T + i]!;
  }
  return S;
}

// Rows and columns of tokens left out become 0: no pair of theirs is one.
export function leaveOut(S: Float32Array, T: number, out: readonly boolean[]): void {
  for (let t = 0; t < T; t++) {
    if (!out[t]) continue;
    S.fill(0, t * T, (t + 1) * T);
    for (let i = 0; i < T; i++) S[i * T + t] = 0;
  }
}

// -127..127: fractions of the largest |value|.
export function signedBytes(S: Float32Array): Int8Array<ArrayBuffer> {
  let high = 0,
    low = 0;
  for (let k = 0; k < S.length; k++) {
    const v = S[k]!;
    if (v > high) high = v;
    else if (v < low) low = v;
  }
  const out = new Int8Array(S.length);
  const scale = 127 / Math.max(high, -low);
  // Shifted above 0, where cutting off the fraction rounds down.
  if (Number.isFinite(scale)) for (let k = 0; k < S.length; k++) out[k] = ((S[k]! * scale + 128.5) | 0) - 128;
  return out;
}

// IEEE 754 halves, as the service sends them: their bits moved to where a float has them stand for 2^-112 of the value.
export function fromHalves(halves: Uint16Array): Float32Array {
  const bits = new Uint32Array(halves.length);
  for (let k = 0; k < bits.length; k++) bits[k] = ((halves[k]! & 0x8000) << 16) | ((halves[k]! & 0x7fff) << 13);
  const values = new Float32Array(bits.buffer);
  for (let k = 0; k < values.length; k++) {
    if ((halves[k]! & 0x7c00) === 0x7c00)
      bits[k] = bits[k]! | 0x7f800000; // infinite, or none
    else values[k] = values[k]! * 2 ** 112;
  }
  return values;
}

// Outputs [T][d] without their mean over the text, a new array.
export function centre(outputs: Float32Array, T: number): Float32Array {
  const d = T ? outputs.length / T : 0;
  const mean = new Float64Array(d);
  for (let k = 0; k < outputs.length; k++) mean[k % d]! += outputs[k]! / T;
  return outputs.map((v, k) => v - mean[k % d]!);
}

// Numbers as IEEE 754 halves, rounded to the nearest.
export function toHalves(values: Float32Array): Uint16Array<ArrayBuffer> {
  const halves = new Uint16Array(values.length);
  const float = new Float32Array(1);
  const bits = new Uint32Array(float.buffer);
  for (let k = 0; k < values.length; k++) {
    float[0] = Math.abs(values[k]!);
    const sign = values[k]! < 0 ? 0x8000 : 0;
    const small = float[0] < 2 ** -14; // such halves are multiples of 2^-24
    const normal = (bits[0]! - 0x38000000 + 0xfff + ((bits[0]! >> 13) & 1)) >> 13;
    halves[k] = sign | (small ? Math.round(float[0] * 2 ** 24) : Math.min(0x7c00, normal));
  }
  return halves;
}
