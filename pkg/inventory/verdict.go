package inventory

import (
	"fmt"
	"strings"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// Verdict leaves out of a scheduler's message what does not help: the count of nodes that begins it, and the
// outcome of the search for victims that ends it.
func Verdict(message string) string {
	if there, all, ok := reason.MissingMembers(message); ok {
		return fmt.Sprintf("%d of the %d members of the job were there when the scheduler looked", there, all)
	}
	message = strings.ReplaceAll(message, string(reason.Excluded), "are in another pool or have another GPU type")
	if _, rest, ok := strings.Cut(message, "nodes are available: "); ok {
		message = rest
	}
	return reason.Trim(message)
}
