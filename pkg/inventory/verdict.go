package inventory

import "strings"

// excludedNodes is how the scheduler counts the nodes that our plugin did not even look at.
const excludedNodes = "didn't satisfy plugin(s) [GPUFilter]"

// Verdict leaves out of a scheduler's message what does not help: the count of nodes that begins it, and the
// outcome of the search for victims that ends it.
func Verdict(message string) string {
	message = strings.ReplaceAll(message, excludedNodes, "are in another pool or have another GPU type")
	if _, rest, ok := strings.Cut(message, "nodes are available: "); ok {
		message = rest
	}
	for _, tail := range []string{" preemption: ", " no new claims to deallocate"} {
		message, _, _ = strings.Cut(message, tail)
	}
	return strings.TrimRight(message, " .,")
}
