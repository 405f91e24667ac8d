// Shows what a run of labelled texts found: the report's tables, and the heads behind one label as a map.
import type { CorpusLabels, LabelClass } from "../../../../build/openapi";
import type { App } from "../../app/app";
import { escapeBidi } from "../../app/bidi";
import { HeadMap, type HeadNumbers } from "../../heads/head-map";
import { linearTint } from "../../heads/tint";
import { lutOf } from "../../maps/colour";
import { format } from "../../maps/scale";
import { useApp } from "../../ui/context";
import { Select } from "../../ui/controls";
import { StateDisclosure } from "../../ui/state-controls";
import type { Report } from "./api";
import { PagePart, type OpenHead } from "./pages";
import { valuesOfModel, type OfRun } from "./patterns";

type Labelled = Report & { labels: CorpusLabels; label_effect_sum: number[][][] };

const isLabelled = (report: Report): report is Labelled => "labels" in report;

export function RunLabels({ run, report, page, onOpen }: OfRun) {
  if (!isLabelled(report)) return null;
  return (
    <StateDisclosure field="runlabels" title={`Labelled texts of ${run.name}`}>
      <div class="labels">
        <PagePart page={page} select="#labels > :not(h2)" onOpen={onOpen} />
        <Heads report={report} onOpen={onOpen} />
      </div>
    </StateDisclosure>
  );
}

// The mean effect of each head on the logit of one label.
function Heads({ report, onOpen }: { report: Labelled; onOpen: OpenHead }) {
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
      <Select
        label="Heads of the label"
        help="effect"
        value={chosen.label}
        options={known.map(({ label }) => [label, escapeBidi(label)] as const)}
        onChange={app.setter("runlabel")}
      />
      <HeadMap of={numbersOf(app, report, chosen)} onOpen={onOpen} />
    </>
  );
}

// Above 0: the head raises the logit of the label.
function numbersOf({ state, theme }: App, report: Labelled, of: LabelClass): HeadNumbers {
  const sums = report.label_effect_sum[report.labels.classes.indexOf(of)] ?? [];
  const values = valuesOfModel(report, (l, head) => -(sums[l]?.[head] ?? 0) / of.effect_texts);
  return {
    name: "label_effect",
    ...linearTint(values, "Logit lost", lutOf(state.map, "difference", theme), true),
    write: format,
    caption: `Logit of “${escapeBidi(of.label)}” that is lost without a head: mean over ${of.effect_texts} texts of the label`,
  };
}
