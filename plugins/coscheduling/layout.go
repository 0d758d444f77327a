package coscheduling

import (
	"fmt"
	"strings"
	"time"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/topology"
)

// layout is how the members of a gang are to lie in the topology of the cluster. The zero value leaves it to the scores.
type layout struct {
	// level is the name of a level, or the key of a label.
	level    string
	required bool
	// wait is how long a gang that could lie further apart holds out for one domain of the level.
	wait time.Duration
}

// mostWait is the longest wait.
const mostWait = 24 * time.Hour

func (l layout) isAny() bool { return l.level == "" }

// readLayout reads the annotation of a PodGroup. The second value says what is wrong with it, "" for nothing.
func readLayout(text string) (layout, string) {
	if text == "" {
		return layout{}, ""
	}
	rest, waiting, waits := strings.Cut(text, names.TopologyWait)
	mode, level, _ := strings.Cut(rest, "=")
	if mode != names.TopologyRequired && mode != names.TopologyPreferred || !topology.IsLevel(level) {
		return layout{}, fmt.Sprintf("the annotation %s is %s, want %s=<level> or %s=<level>, where a level is %s, or the key of a label "+
			"of nodes with its prefix, such as example.com/row", names.AnnotationTopology, shown(text), names.TopologyRequired, names.TopologyPreferred, strings.Join(topology.Names(), ", "))
	}
	l := layout{level: level, required: mode == names.TopologyRequired}
	if !waits {
		return l, ""
	}
	var err error
	if l.wait, err = time.ParseDuration(waiting); err != nil || l.required || l.wait <= 0 || l.wait > mostWait {
		return layout{}, fmt.Sprintf("the annotation %s is %s, want %s=<level>%s10m with a time of up to %gh", names.AnnotationTopology, shown(text),
			names.TopologyPreferred, names.TopologyWait, mostWait.Hours())
	}
	return l, ""
}

// holdsOut returns until when a gang waits for a place in one domain though it may lie further apart; zero for no longer, or
// when some of it has places already.
func (g *podGroup) holdsOut(m *members, now time.Time) time.Time {
	until := g.CreationTimestamp.Add(g.layout.wait)
	if g.layout.wait == 0 || now.IsZero() || !now.Before(until) || len(m.placed) > 0 || nominatedFirst(m.waiting)[0].Status.NominatedNodeName != "" {
		return time.Time{}
	}
	return until
}
