// Shows the labels that a model predicts for a run's labelled texts: how often it is right, and the heads behind each label.
import type { CorpusLabels, LabelClass, LabelGroup, LabelHead } from "../../../../build/openapi";
import type { App } from "../../app/app";
import { escapeBidi } from "../../app/bidi";
import { HeadLink, HeadMap, type HeadNumbers } from "../../heads/head-map";
import { lutOf, tinted } from "../../maps/colour";
import { linearBar, placesUpTo } from "../../maps/linear";
import { format, percent } from "../../maps/scale";
import { useApp } from "../../ui/context";
import { Facts, Select } from "../../ui/controls";
import { StateDisclosure } from "../../ui/state-controls";
import { Columns, NumberTable } from "../../ui/table";
import type { Report, Run } from "./api";
import { openInRun } from "./patterns";

const ROWS_MOST = 30; // labels shown; the report's files have all
const HEADS_SHOWN = 5;

type Labelled = Report & { labels: CorpusLabels; label_confusion: number[][]; label_effect_sum: number[][][] };

const GROUP_FIGURES = [
  ["repeated_share", "Same token", percent],
  ["same_sentence_share", "Same sentence", percent],
  ["mean_distance", "Mean distance", format],
  ["focal_share", "Focal token", percent],
  ["separator_attention", "On separators", percent],
] as const;

const isLabelled = (report: Report): report is Labelled => "labels" in report;

type Open = (layer: number, head: number) => void;

export function RunLabels({ run, report }: { run: Run; report: Report }) {
  const app = useApp();
  if (!isLabelled(report)) return null;
  const { labels } = report;
  const open: Open = (layer, head) => openInRun(app, run, layer, head);
  return (
    <StateDisclosure field="runlabels" title={`Labelled texts of ${run.name}`}>
      <div class="labels">
        <Summary of={labels} />
        {labels.classes.length > ROWS_MOST && (
          <p class="muted">
            The tables show the first {ROWS_MOST} of {labels.classes.length} labels.
          </p>
        )}
        <Classes of={labels.classes} />
        <Confusion labels={labels.classes.map(({ label }) => label)} of={report.label_confusion} />
        <Calibration of={labels} />
        <Heads report={report} open={open} />
        <Groups of={labels.groups} layer={report.layers.at(-1) ?? 0} />
      </div>
    </StateDisclosure>
  );
}

function Summary({ of }: { of: CorpusLabels }) {
  const facts = [
    { name: "Accuracy", value: percent(of.accuracy) },
    { name: "Right", value: `${of.right} of ${of.texts} texts` },
    { name: "Macro F1", value: format(of.macro_f1) },
    { name: "Mean loss", value: `${format(of.loss)} nats`, title: "Mean of −ln p of the text’s own label" },
    {
      name: "Calibration error",
      value: percent(of.calibration_error),
      title: "Mean distance between the probability of the predicted label and the accuracy, in bins of 0.1",
    },
  ];
  return <Facts of={facts} />;
}

const Classes = ({ of }: { of: readonly LabelClass[] }) => (
  <NumberTable
    caption="Labels: how many texts have each, and how well it is predicted"
    columns={["Label", "Texts", "Predicted", "Precision", "Recall", "F1", "Loss"]}
    rows={of
      .slice(0, ROWS_MOST)
      .map(({ label, texts, predicted, precision, recall, f1, loss }) => [
        escapeBidi(label),
        texts,
        predicted,
        percent(precision),
        percent(recall),
        format(f1),
        format(loss),
      ])}
  />
);

// A cell's colour is its fraction of the row.
function Confusion({ labels, of }: { labels: readonly string[]; of: readonly number[][] }) {
  const { state, theme } = useApp();
  const shown = labels.slice(0, ROWS_MOST);
  const lut = lutOf(state.map, "attention", theme);
  const caption = "Confusion matrix: a row for each label of the texts, a column for each predicted label";
  return (
    <div class="wide" tabIndex={0} role="region" aria-label={caption}>
      <table class="confusion">
        <caption>{caption}</caption>
        <Columns of={["Label", ...shown.map(escapeBidi)]} />
        <tbody>
          {shown.map((label, row) => {
            const counts = of[row] ?? [];
            const all = counts.reduce((a, b) => a + b, 0);
            return (
              <tr key={label}>
                <th scope="row">{escapeBidi(label)}</th>
                {shown.map((predicted, column) => {
                  const count = counts[column] ?? 0;
                  const fraction = all ? count / all : 0;
                  return (
                    <td
                      key={predicted}
                      class="number"
                      style={tinted(lut, fraction)}
                      title={`${percent(fraction)} of ${label}`}
                    >
                      {count}
                    </td>
                  );
                })}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

const Calibration = ({ of }: { of: CorpusLabels }) => (
  <NumberTable
    caption="Calibration: texts by the probability of the predicted label. A calibrated model is right as often as its mean probability says."
    columns={["Probability", "Texts", "Mean probability", "Accuracy"]}
    rows={of.calibration
      .filter(({ texts }) => texts > 0)
      .map(({ from, to, texts, confidence, accuracy }) => [
        `${from.toFixed(1)} to ${to.toFixed(1)}`,
        texts,
        percent(confidence),
        percent(accuracy),
      ])}
  />
);

// The mean effect of each head on the logit of one label, and the strongest heads of every label.
function Heads({ report, open }: { report: Labelled; open: Open }) {
  const app = useApp();
  const known = report.labels.classes.filter((one) => one.effect_texts > 0);
  const chosen = known.find(({ label }) => label === app.state.runlabel) ?? known[0];
  if (!chosen)
    return (
      <p class="muted">
        Heads that matter for each label: start a run with a share of texts for effects, for example 0.1.
      </p>
    );
  return (
    <>
      <NumberTable
        caption="Heads that matter for a label: the change of its logit without the head, mean ± standard deviation over its chosen texts"
        columns={["Label", "Texts", "Heads whose removal lowers its logit most"]}
        rows={known
          .slice(0, ROWS_MOST)
          .map(({ label, effect_texts, heads }) => [
            escapeBidi(label),
            effect_texts,
            <Strongest key={label} heads={heads} open={open} />,
          ])}
      />
      <Select
        label="Heads of the label"
        help="effect"
        value={chosen.label}
        options={known.map(({ label }) => [label, escapeBidi(label)] as const)}
        onChange={(runlabel) => app.set({ runlabel })}
      />
      <HeadMap of={numbersOf(app, report, chosen)} onOpen={open} />
    </>
  );
}

const signed = (value: number | null): string => ((value ?? 0) > 0 ? "+" : "") + format(value);

const Strongest = ({ heads, open }: { heads: readonly LabelHead[]; open: Open }) => (
  <>
    {heads.slice(0, HEADS_SHOWN).map(({ layer, head, change, spread }) => (
      <span key={`${layer} ${head}`} class="effect">
        <HeadLink layer={layer} head={head} onOpen={open} /> {signed(change)}
        {spread === null ? "" : ` ± ${format(spread)}`}
      </span>
    ))}
  </>
);

// Above 0: the head raises the logit of the label.
function numbersOf({ state, theme }: App, report: Labelled, of: LabelClass): HeadNumbers {
  const sums = report.label_effect_sum[report.labels.classes.indexOf(of)] ?? [];
  const values = Array.from({ length: Math.max(...report.layers) + 1 }, (_, layer) => {
    const row = sums[report.layers.indexOf(layer)];
    return Array.from({ length: report.heads }, (__, k) => (row ? -(row[k] ?? 0) / of.effect_texts : null));
  });
  const top = Math.max(0, ...values.flat().map((value) => Math.abs(value ?? 0)));
  return {
    name: "label_effect",
    values,
    place: placesUpTo(top, true),
    bar: linearBar("Logit lost", lutOf(state.map, "difference", theme), top, true),
    write: format,
    caption: `Logit of “${escapeBidi(of.label)}” that is lost without a head: mean over ${of.effect_texts} texts of the label`,
  };
}

const outcomeOf = (right: boolean | null): string => (right === null ? "all" : right ? "right" : "wrong");

const Groups = ({ of, layer }: { of: readonly LabelGroup[]; layer: number }) => (
  <NumberTable
    caption={`Heads of layer ${layer} by label and outcome: the paper’s figures of high pairs`}
    columns={["Label", "Outcome", "Texts", ...GROUP_FIGURES.map(([, name]) => name)]}
    rows={of
      .slice(0, 3 * ROWS_MOST + 2)
      .map(({ label, right, texts, layers }) => [
        label === null ? "all" : escapeBidi(label),
        outcomeOf(right),
        texts,
        ...GROUP_FIGURES.map(([key, , write]) => write(layers.at(-1)?.[key] ?? null)),
      ])}
  />
);
