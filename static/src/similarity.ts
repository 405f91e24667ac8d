// What the overview shows of one head's similarity, made from the head's outputs O: T x d numbers travel instead of
// T x T, and negative similarities survive. Runs in the worker.

// S = O O' [T][T] with diagonal 0.
export function similarityOf(outputs: ArrayLike<number>, T: number): Float32Array {
  const d = T ? outputs.length / T : 0;
  const S = new Float32Array(T * T);
  for (let i = 0; i < T; i++)
    for (let j = i + 1; j < T; j++) {
      let sum = 0;
      for (let a = i * d, b = j * d, end = a + d; a < end; a++, b++) sum += outputs[a]! * outputs[b]!;
      S[i * T + j] = S[j * T + i] = sum;
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

// -127..127: the share of the largest value in size.
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

// IEEE 754 halves, as the service sends them.
export function fromHalves(bits: Uint16Array): Float32Array {
  return Float32Array.from(bits, (h) => {
    const exponent = (h >> 10) & 31,
      fraction = h & 1023,
      sign = h & 0x8000 ? -1 : 1;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return exponent ? sign * 2 ** (exponent - 25) * (1024 + fraction) : sign * 2 ** -24 * fraction;
  });
}
