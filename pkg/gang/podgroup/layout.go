package podgroup

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/topology"
)

// maxWait is the longest wait.
const maxWait = 24 * time.Hour

// ReadLayout parses the annotation of a PodGroup. The second value says what is wrong with it, "" for nothing.
func ReadLayout(text string) (placement.Layout, string) {
	if text == "" {
		return placement.Layout{}, ""
	}
	const most = 2 // options, each allowed once
	parts := strings.SplitN(text, ";", 2+most)
	mode, level, _ := strings.Cut(parts[0], "=")
	if mode != names.TopologyRequired && mode != names.TopologyPreferred || !topology.IsLevel(level) {
		return placement.Layout{}, fmt.Sprintf("the annotation %s is %s, want %s=<level> or %s=<level>, where a level is %s, or the key of a label "+
			"of nodes with its prefix, such as example.com/row", names.AnnotationTopology, describeValue(text), names.TopologyRequired, names.TopologyPreferred, strings.Join(topology.LevelNames(), ", "))
	}
	l := placement.Layout{Level: level, Required: mode == names.TopologyRequired}
	for _, option := range parts[1:] {
		if want := readLayoutOption(&l, ";"+option); want != "" {
			return placement.Layout{}, fmt.Sprintf("the annotation %s is %s, want %s", names.AnnotationTopology, describeValue(text), want)
		}
	}
	return l, ""
}

// readLayoutOption parses an option after a level. It returns what to write instead of an invalid option, "" for a valid one.
func readLayoutOption(l *placement.Layout, text string) (want string) {
	if size, ok := strings.CutPrefix(text, names.TopologySegment); ok {
		number, err := strconv.Atoi(size)
		if err != nil || strconv.Itoa(number) != size || number < 1 || number > placement.MaxMembers || l.Segment > 0 {
			return fmt.Sprintf("%s=<level>%s16 with a whole number from 1 to %d", names.TopologyRequired, names.TopologySegment, placement.MaxMembers)
		}
		l.Segment = number
		return ""
	}
	waiting, ok := strings.CutPrefix(text, names.TopologyWait)
	if !ok {
		return fmt.Sprintf("%s=<level>%s16 or %s=<level>%s10m", names.TopologyRequired, names.TopologySegment, names.TopologyPreferred, names.TopologyWait)
	}
	wait, err := time.ParseDuration(waiting)
	if err != nil || l.Required || wait <= 0 || wait > maxWait || l.Wait > 0 {
		return fmt.Sprintf("%s=<level>%s10m with a time of up to %gh", names.TopologyPreferred, names.TopologyWait, maxWait.Hours())
	}
	l.Wait = wait
	return ""
}

// HoldOutUntil returns until when a gang waits for a placement in one domain although it may be spread wider. It is zero if the wait is over, or if
// some members have places already.
func (g *Group) HoldOutUntil(m *placement.Members, now time.Time) time.Time {
	until := g.CreationTimestamp.Add(g.Layout.Wait)
	if g.Layout.Wait == 0 || now.IsZero() || !now.Before(until) || len(m.Placed) > 0 || placement.NominatedFirst(m.Waiting)[0].Status.NominatedNodeName != "" {
		return time.Time{}
	}
	return until
}
