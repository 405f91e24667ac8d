// The fields of every part's state. Their order is that of links.
import { addFields } from "./app/state";
import { FIELDS as MAPS } from "./maps/state";
import { FIELDS as OVERVIEW } from "./views/overview/state";
import { FIELDS as HEAD } from "./views/head/state";
import { FIELDS as TEXT } from "./views/text/state";
import { FIELDS as PAIRS } from "./views/pairs/state";
import { FIELDS as COMPARE } from "./views/compare/state";
import { FIELDS as EXPERIMENT } from "./views/experiment/state";
import { FIELDS as TRACE } from "./views/trace/state";
import { FIELDS as CORPUS } from "./views/corpus/state";

addFields({ ...MAPS, ...OVERVIEW, ...HEAD, ...TEXT, ...PAIRS, ...COMPARE, ...EXPERIMENT, ...TRACE, ...CORPUS });
