// Texts to begin with. The first is short enough for every token to be named, and repeats words within and across its
// sentences. The second is what the paper's Fig. 9 asks for: a name or two that come again and again, in several
// sentences, long enough to be cut at 128 tokens.

interface Example {
  name: string;
  text: string;
  pair?: string;
}

export const EXAMPLES: readonly [Example, ...Example[]] = [
  {
    name: "Two sentences",
    text: "The town had one harbour. The harbour had two piers, and the town paid for one.",
  },
  {
    name: "A long text: the harbour police",
    text:
      "The harbour of the old town was built for fishing boats. When the first steamers came, the town asked the " +
      "harbour master for a longer pier, and the harbour master asked the state for money. The state paid for one " +
      "pier, the town paid for the other. For forty years the two piers had two owners, two sets of rules and two " +
      "police forces. A boat at the town pier was searched by the town police, a boat at the state pier by the state " +
      "police, and a boat that changed piers was searched twice. In 1931 a new law gave both piers to one port " +
      "authority. The police of the port became a force of its own, and the boats were searched once.",
  },
  {
    name: "One word, two senses",
    text:
      "She sat on the bank of the river and counted the money from the bank. The river was high that spring. The " +
      "bank had closed at noon, and the path along the bank was wet.",
  },
  { name: "A masked word", text: "The old bridge [MASK] closed after the war." },
  {
    name: "Question and answer (two segments)",
    text: "Where was the company founded?",
    pair: "The company was founded in a small town by the sea, and moved to the capital ten years later.",
  },
];

// Heads are labelled by their attention over this text, whatever text is on screen. It has several sentences and
// clauses, and repeats words within and across them.
export const SAMPLE =
  "The ferry left the island at six, and the island grew small behind it. On deck, a girl counted the gulls, lost " +
  "count, and counted again. Her father read a letter from the city; the letter said that the house was sold. Who " +
  "had bought the house? The letter did not say. When the ferry came to the city, the girl slept, and the gulls " +
  "turned back to the island.";

// Texts whose masked word the embedded model gets right.
export const MASKED: readonly string[] = [
  "The old bridge [MASK] closed after the war.",
  "He was born in [MASK] York.",
  "The film was directed [MASK] John Ford.",
];
