package v1alpha1

import "time"

const (
	// MaxCheckpointGrace is the longest that anybody may have to save their work before a preemption, whatever a pool says.
	MaxCheckpointGrace = time.Hour
	// UsualCheckpointGrace is the longest in pools that do not say it: who has been evicted for waits that long, and what is
	// kept free for them does nothing meanwhile.
	UsualCheckpointGrace = 5 * time.Minute
)

// CheckpointGraces say how long the pods of a pool have to save their work before they are preempted.
type CheckpointGraces struct {
	// Default is for those that do not say it themselves, Most cuts what is longer.
	Default, Most time.Duration
}

// CheckpointGraces of a pool. What cannot be read is as if it was not there.
func (d *PoolDefaults) CheckpointGraces() CheckpointGraces {
	long, _ := readDuration(d.CheckpointGrace)
	out := CheckpointGraces{Default: min(long, MaxCheckpointGrace)}
	out.Most = max(out.Default, UsualCheckpointGrace)
	if most, ok := readDuration(d.MaxCheckpointGrace); ok {
		out.Most = min(most, MaxCheckpointGrace)
	}
	return out
}

// GraceFor is how long a pod has to save its work, 0 for a pod that is evicted without notice.
func (g CheckpointGraces) GraceFor(annotations map[string]string) time.Duration {
	says, ok := CheckpointGraceOf(annotations)
	if !ok {
		says = g.Default
	}
	return min(says, g.Most)
}

// CheckpointGraceOf is the pod's own request, false if there is none that can be read.
func CheckpointGraceOf(annotations map[string]string) (time.Duration, bool) {
	return readDuration(annotations[AnnotationCheckpointGrace])
}
