package inventory

import (
	"fmt"
	"strings"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// ShortenVerdict removes the unhelpful parts of a scheduler's message: the count of nodes at its beginning, and the outcome of the search for victims at its
// end.
func ShortenVerdict(message string) string {
	if there, all, ok := reason.MissingMembers(message); ok {
		return fmt.Sprintf("%d of the %d members of the job were there when the scheduler looked", there, all)
	}
	message = strings.ReplaceAll(message, string(reason.Excluded), "are in another pool or have another GPU type")
	if _, rest, ok := strings.Cut(message, "nodes are available: "); ok {
		message = rest
	}
	return reason.TrimVerdict(message)
}
