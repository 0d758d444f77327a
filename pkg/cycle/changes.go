package cycle

import fwk "k8s.io/kube-scheduler/framework"

const changesKey fwk.StateKey = "Changes"

// maxChanges is the minimum number of changes that are remembered. A reader with more changes than that visits all nodes, which is no more
// expensive by then.
const maxChanges = 1 << 14

// Changes record which nodes of the snapshot may have changed since earlier cycles, so that caches of thousands of nodes are updated by a look
// at a few. They include every changed node, and may include unchanged ones. They belong to one scheduler; nil knows no changes. The writer must
// not allow a snapshot between a change and its record. Only the scheduling cycle may read them.
type Changes struct {
	// pending are changes that are not in a snapshot yet. If no snapshot is taken for long, as without leadership, some are dropped.
	pending []string
	missed  bool
	// log are the changed nodes, after so many dropped entries.
	log       []string
	forgotten int64
}

// RecordNode records a node whose pods or object change.
func (c *Changes) RecordNode(node string) {
	if last := len(c.pending) - 1; last >= 0 && c.pending[last] == node {
		return
	}
	if len(c.pending) >= maxChanges {
		c.pending, c.missed = c.pending[:0], true
	}
	c.pending = append(c.pending, node)
}

// RecordSnapshot records that a snapshot with all recorded changes is taken.
func (c *Changes) RecordSnapshot() {
	if c.missed { // no mark is valid any more
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

// Mark is a position in the changes. The zero value is before all of them.
type Mark struct{ at int64 }

// ChangedSince returns the nodes that may have changed since a mark, and advances the mark. It returns false, and any node may have changed, if
// that is unknown or there are more than most.
func (c *Changes) ChangedSince(mark *Mark, most int) ([]string, bool) {
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

// Clone implements fwk.StateData. All cycles share the changes.
func (c *Changes) Clone() fwk.StateData { return c }

// WriteChanges stores the changes in the state of a cycle.
func WriteChanges(cs fwk.CycleState, c *Changes) { cs.Write(changesKey, c) }

// ReadChanges returns the changes of a cycle, nil if none are recorded.
func ReadChanges(cs fwk.CycleState) *Changes {
	c, err := Read[*Changes](cs, changesKey)
	if err != nil {
		return nil
	}
	return c
}
