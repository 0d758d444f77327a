package doctor

import (
	"strings"
	"time"

	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// silentNodes describes what happens to the jobs of a node that stops responding.
func (w *Workload) silentNodes() Check {
	const name = "silent nodes"
	after, ok := w.flagDuration("--silent-node-after", nodestate.SilentAfter)
	certain, sure := w.flagDuration("--out-of-service-after", 0)
	switch {
	case !ok || !sure:
		return Check{Name: name, Status: Unknown, Text: phrase.Textf("the arguments of %s cannot be read", w.Name)}
	case certain > 0 && (after == 0 || certain <= after):
		return Check{Name: name, Status: OK, Text: phrase.Textf("the jobs of a node that is silent for %s run elsewhere", certain)}
	case after > 0:
		return Check{Name: name, Status: OK, Text: phrase.Textf(
			"the jobs of a node that is silent for %s run elsewhere, but for such as hold a volume for one node at a time", after)}
	}
	return Check{Name: name, Status: Warning, Text: phrase.Textf("the jobs of a silent node wait until its cloud or a person says that it is off"),
		Advice: phrase.Textf("take --silent-node-after=0 from the arguments of %s, or set --out-of-service-after where something stops machines that are cut off", w.Name)}
}

// flagDuration is the value of a program's flag, or its default; ok is false if it cannot be read.
func (w *Workload) flagDuration(flag string, otherwise time.Duration) (value time.Duration, ok bool) {
	value = otherwise
	for _, text := range w.flagValues(flag) {
		parsed, err := time.ParseDuration(text)
		if err != nil {
			return 0, false
		}
		value = parsed // the last one counts
	}
	return value, true
}

// flagValues are those of a program's flag, in the given order.
func (w *Workload) flagValues(flag string) (values []string) {
	for i, arg := range w.Args {
		if text, is := strings.CutPrefix(arg, flag+"="); is {
			values = append(values, text)
		} else if arg == flag && i+1 < len(w.Args) {
			values = append(values, w.Args[i+1])
		}
	}
	return values
}
