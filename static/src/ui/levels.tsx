// Where a model is read: after the embeddings, or after a layer.

// Level 0 are the embeddings.
export const levelName = (level: number): string => (level ? `layer ${level - 1}` : "embeddings");

// The columns of a table of tokens by levels.
export const LevelColumns = ({ levels }: { levels: number }) => (
  <thead>
    <tr>
      <th scope="col">Token</th>
      {Array.from({ length: levels }, (_, level) => (
        <th key={level} scope="col" title={levelName(level)}>
          {level ? level - 1 : "emb."}
        </th>
      ))}
    </tr>
  </thead>
);
