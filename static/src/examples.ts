// Texts to begin with. The first two are those the paper shows in its Fig. 9 and Fig. 4 (Wikipedia).

export interface Example {
  name: string;
  text: string;
  pair?: string;
}

export const EXAMPLES: readonly Example[] = [
  {
    name: "Airport policing (paper, Fig. 9)",
    text:
      "Airport policing in the United Kingdom has taken many forms since the rise of scheduled airline " +
      "services in the post-war period. Policing at major civilian airports was the responsibility of " +
      "specialist constabularies operated by three central government departments until 1974, when the rise " +
      "in international terrorism saw armed police from territorial police forces deployed to major airports " +
      "under the provisions of the Policing of Airports Act. As more minor airports grew in size, they too " +
      "switched to armed police provided by local police forces. However, the funding agreements for the " +
      "provision of such services varied wildly from airport to airport, leading to disagreements between " +
      "airport operators and chief constables. A new regime",
  },
  {
    name: "Gerstenslager (paper, Fig. 4)",
    text:
      "The Gerstenslager Company was a maker of past model body panels for several major auto makers. In " +
      "the 1950s the company was best known for making large custom vehicles such as bookmobiles, canteens " +
      "and mobile television units. History: The company started in 1860 as a carriage factory known as the " +
      "We-he Company in Marshallville, Ohio. In 1882 blacksmith George Gerstenslager went to work for the " +
      "company, and by 1904 was the owner and Eponym. In 1907, the company moved to Wooster, Ohio. In the " +
      "early 1920s, the Gerstenslager changed from production of buggies, surreys and wagons",
  },
  { name: "A masked word", text: "Paris is the [MASK] of France. Berlin is the capital of Germany." },
  {
    name: "Question and answer (two segments)",
    text: "Where was the company founded?",
    pair: "The company was founded in 1860 in Ohio, and moved to Wooster in 1907.",
  },
];
