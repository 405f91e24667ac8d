// The runs of the server, a card each: progress, report and actions.
import { useState } from "preact/hooks";
import type { VNode } from "preact";
import { asProblem } from "../../app/api";
import { embedded } from "../../app/embed";
import { hasDecoder } from "../../app/stacks";
import { token } from "../../app/token";
import { counted } from "../../app/words";
import { save } from "../../saving/files";
import { PrecisionBadge } from "../../ui/precision";
import { cancelRun, deleteRun, fetchFile, isActive, reportAddress, type Run } from "./api";
import { dateOfRun, nameOfRun } from "./names";
import { Button } from "../../ui/controls";

const STATES: Record<Run["state"], string> = {
  queued: "Waiting",
  running: "Running",
  done: "Done",
  failed: "Failed",
  cancelled: "Cancelled",
};

// A cancelled run has a report of the texts counted until then.
const hasReport = ({ state, texts_done }: Run): boolean =>
  state === "done" || (state === "cancelled" && texts_done > 0);

export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// Whose heads the run counts, where its model has several stacks of them.
const stackOf = ({ model, stack = "encoder" }: Run): string =>
  stack !== "encoder" || (model && hasDecoder(model)) ? `${stack} heads` : "";

// "mini · 1,204 of 20,000 texts · 310 texts/s · 1 min left"
export function progressOf(run: Run): string {
  const { texts_done: done, texts_total: total, texts_per_second: rate, eta_seconds: left } = run;
  const running = run.state === "running";
  return [
    run.model ?? "",
    stackOf(run),
    isActive(run) && total ? `${done.toLocaleString("en")} of ${counted(total, "text")}` : counted(done, "text"),
    running && rate ? `${rate.toFixed(rate < 10 ? 1 : 0)} texts/s` : "",
    running && typeof left === "number" ? `${duration(left)} left` : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

const BAD_SHOWN = 12;

// The lines that were left out. A list of runs has their number only; a run's own page has them all.
function badLines({ bad_lines: bad = [], bad_lines_total: total = bad.length }: Run): string {
  const some = bad.slice(0, BAD_SHOWN).join(", ");
  return `Left out ${counted(total, "line")}${some && `: ${some}`}${some && total > BAD_SHOWN ? ", …" : ""}`;
}

type Attempt = (act: () => Promise<void>) => void;

// Runs actions. Returns also what failed last, in words.
export function useAttempt(): [Attempt, VNode | false] {
  const [failure, setFailure] = useState("");
  const attempt: Attempt = (act) => {
    setFailure("");
    act().catch((error: unknown) => setFailure(asProblem(error).message));
  };
  return [
    attempt,
    failure !== "" && (
      <p class="error" role="alert">
        {failure}
      </p>
    ),
  ];
}

export function RunList(props: {
  runs: readonly Run[];
  titleOf: (run: Run) => string;
  onChange: (id: string) => void; // a run was cancelled or deleted
}) {
  return (
    <ol class="runs" aria-label="Runs">
      {props.runs.map((run) => (
        <Card key={run.id} run={run} title={props.titleOf(run)} onChange={props.onChange} />
      ))}
    </ol>
  );
}

function Card({ run, title, onChange }: { run: Run; title: string; onChange: (id: string) => void }) {
  const [attempt, failure] = useAttempt();
  const [busy, setBusy] = useState(false);
  const name = nameOfRun(run);
  const active = isActive(run);
  const endRun = async (): Promise<void> => {
    if (!active && !confirm(`Delete the run ${name} and its report?`)) return;
    setBusy(true);
    try {
      await (active ? cancelRun : deleteRun)(run.id);
      onChange(run.id);
    } finally {
      setBusy(false);
    }
  };
  return (
    <li class="run card" data-state={run.state}>
      <div class="head">
        <h3>{title}</h3>
        <PrecisionBadge of={run.precision} />
        <span class="state">{STATES[run.state]}</span>
      </div>
      <p class="muted" title={run.created ?? ""}>
        {[progressOf(run), dateOfRun(run)].filter(Boolean).join(" · ")}
      </p>
      {active && <Progress run={run} label={`Progress of ${name}`} />}
      {run.error && <p class="error">{run.error}</p>}
      {Boolean(run.bad_lines_total ?? run.bad_lines?.length) && <p class="bad">{badLines(run)}</p>}
      {failure}
      <div class="actions">
        <span class="links">{hasReport(run) && <ReportLinks run={run} attempt={attempt} />}</span>
        {!embedded && (
          <Button
            disabled={busy}
            aria-label={`${active ? "Cancel" : "Delete"} ${name}`}
            onClick={() => attempt(endRun)}
          >
            {active ? "Cancel" : "Delete"}
          </Button>
        )}
      </div>
    </li>
  );
}

// Without a value while the number of texts is not known.
const Progress = ({ run, label }: { run: Run; label: string }) =>
  run.texts_total ? (
    <progress key="known" max={run.texts_total} value={run.texts_done} aria-label={label} />
  ) : (
    <progress key="unknown" aria-label={label} />
  );

const ReportLinks = ({ run, attempt }: { run: Run; attempt: Attempt }) => (
  <FileLinks
    name={nameOfRun(run)}
    formats={[
      ["html", "Open the report"],
      ["json", "JSON"],
      ["npz", "npz"],
    ]}
    addressOf={(format) => reportAddress(run.id, format)}
    attempt={attempt}
  />
);

// The same of the server in several formats, a link each.
export const FileLinks = <Format extends string>(props: {
  name: string; // of the files
  formats: readonly (readonly [format: Format, text: string])[];
  addressOf: (format: Format) => string;
  attempt: Attempt;
}) =>
  props.formats.map(([format, text]) => (
    <FileLink
      key={format}
      text={text}
      file={`${props.name}.${format}`}
      address={props.addressOf(format)}
      attempt={props.attempt}
    />
  ));

// Pages are opened, other files saved. A link cannot carry a token: then the file is fetched and saved.
function FileLink(props: { text: string; file: string; address: string; attempt: Attempt }) {
  const { text, file, address, attempt } = props;
  const fetchIt = async (): Promise<void> => save(await fetchFile(address), file);
  if (token())
    return (
      <Button class="link" onClick={() => attempt(fetchIt)}>
        {text} (save)
      </Button>
    );
  const page = { target: "_blank", rel: "noopener" };
  return (
    <a href={address} {...(file.endsWith(".html") ? page : { download: file })}>
      {text}
    </a>
  );
}
