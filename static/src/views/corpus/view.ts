// Registers the view Corpus.
import { addView } from "../../app/views";
import { lazy } from "../../ui/lazy";

addView("corpus", { component: lazy(async () => (await import("./corpus")).CorpusView), ofRuns: true });
