// Returns a function that makes the value of each object once, and keeps it as long as the object.
export function perObject<K extends object, V>(make: (of: K) => V): (of: K) => V {
  const known = new WeakMap<K, V>();
  return (of) => {
    let value = known.get(of);
    if (value === undefined) known.set(of, (value = make(of)));
    return value;
  };
}
