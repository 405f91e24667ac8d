// Returns a function that runs `work` once in the next frame, however often it is called before.
export function perFrame(work: () => void): () => void {
  let pending = 0;
  return () => {
    pending ||= requestAnimationFrame(() => {
      pending = 0;
      work();
    });
  };
}
