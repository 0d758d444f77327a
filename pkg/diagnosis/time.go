package diagnosis

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// span says how long something takes or took.
func span(d time.Duration) string { return duration.HumanDuration(max(d, 0)) }

// since says when something was: the time of day where the reader is, and how long ago.
func (f *Facts) since(at time.Time) string {
	if at.IsZero() {
		return "at a time that is not known"
	}
	ago := f.Cluster.Now.Sub(at)
	if ago >= 24*time.Hour {
		return span(ago) + " ago"
	}
	return fmt.Sprintf("at %s, %s ago", at.In(f.Cluster.Now.Location()).Format("15:04"), span(ago))
}
