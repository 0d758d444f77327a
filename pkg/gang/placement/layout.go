package placement

import "time"

// Layout is how the members of a gang are placed in the topology of the cluster. The zero value leaves it to the scores.
type Layout struct {
	// Level is the name of a level, or the key of a label.
	Level    string
	Required bool
	// Wait is how long a gang that could be spread wider waits for a single domain of the level.
	Wait time.Duration
	// Segment is how many members each domain of the level holds, 0 if one domain holds all of them.
	Segment int
}

// IsAny reports whether members may go anywhere.
func (l Layout) IsAny() bool { return l.Level == "" }
