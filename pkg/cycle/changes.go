package cycle

import fwk "k8s.io/kube-scheduler/framework"

const changesKey fwk.StateKey = "Changes"

// maxChanges is how many changes are remembered at least. Whoever has not asked for longer than that looks at all nodes,
// which is no dearer by then.
const maxChanges = 1 << 14

// Changes tell which nodes of the snapshot may be others than some cycles ago, so that what is remembered of thousands of
// nodes is put right by a look at a few. They name a node that has changed, and may name one that has not. They belong to
// one scheduler, and nil know nothing. Who notes changes must let no snapshot be taken between a change and its note; asking
// is for the scheduling cycle alone.
type Changes struct {
	// pending are not in a snapshot yet. Where no snapshot is taken for long, as by who does not lead, some were missed.
	pending []string
	missed  bool
	// log are the nodes that changed, of which so many others were forgotten before.
	log       []string
	forgotten int64
}

// Note is told of a node whose pods or whose own description change.
func (c *Changes) Note(node string) {
	if last := len(c.pending) - 1; last >= 0 && c.pending[last] == node {
		return
	}
	if len(c.pending) >= maxChanges {
		c.pending, c.missed = c.pending[:0], true
	}
	c.pending = append(c.pending, node)
}

// Taken is told that a snapshot is taken, of all that was noted so far.
func (c *Changes) Taken() {
	if c.missed { // no mark is good any more
		c.forgotten += int64(len(c.log)) + 1
		c.log, c.missed = c.log[:0], false
	}
	c.log = append(c.log, c.pending...)
	c.pending = c.pending[:0]
	if over := len(c.log) - maxChanges; over > maxChanges {
		c.forgotten += int64(over)
		c.log = append(c.log[:0], c.log[over:]...)
	}
}

// Mark is a moment from which on changes can be asked for. The zero value is before all of them.
type Mark struct{ at int64 }

// Since returns the nodes that may have changed since a mark, and moves the mark on to now. It returns false, and any
// node may have, where that is not known or where there are more of them than somebody would look at.
func (c *Changes) Since(mark *Mark, most int) ([]string, bool) {
	if c == nil {
		*mark = Mark{}
		return nil, false
	}
	from := mark.at - 1 - c.forgotten
	known := mark.at > 0 && from >= 0 && len(c.log)-int(from) <= most
	mark.at = c.forgotten + int64(len(c.log)) + 1
	if !known {
		return nil, false
	}
	return c.log[from:], true
}

// Clone implements fwk.StateData. The changes are of all cycles.
func (c *Changes) Clone() fwk.StateData { return c }

// Follow leaves the changes in the state of a cycle.
func Follow(cs fwk.CycleState, c *Changes) { cs.Write(changesKey, c) }

// Followed returns the changes of a cycle, nil where nobody notes them.
func Followed(cs fwk.CycleState) *Changes {
	c, err := Read[*Changes](cs, changesKey)
	if err != nil {
		return nil
	}
	return c
}
