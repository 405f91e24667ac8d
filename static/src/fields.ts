// The fields of every part's state. Their order is that of links.
import "./maps/state";
import "./views/overview/state";
import "./views/head/state";
import "./views/text/state";
import "./views/pairs/state";
import "./views/compare/state";
import "./views/experiment/state";
import "./views/trace/state";
import "./views/corpus/state";
