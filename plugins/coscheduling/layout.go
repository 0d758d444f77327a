package coscheduling

import "time"

// layout is how the members of a gang are placed in the topology of the cluster. The zero value leaves it to the scores.
type layout struct {
	// level is the name of a level, or the key of a label.
	level    string
	required bool
	// wait is how long a gang that could be spread wider waits for a single domain of the level.
	wait time.Duration
	// segment is how many members each domain of the level holds, 0 if one domain holds all of them.
	segment int
}

// isAny reports whether members may go anywhere.
func (l layout) isAny() bool { return l.level == "" }
