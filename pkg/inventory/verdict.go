package inventory

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// excludedNodes is how the scheduler counts the nodes that our plugin did not even look at.
const excludedNodes = "didn't satisfy plugin(s) [GPUFilter]"

// missingMembers is what Coscheduling says of a pod while members of its gang are not created.
var missingMembers = regexp.MustCompile(`(?:pre-filter pod \S+ )?cannot find enough sibling pods, current pods number: (\d+), minMember of group: (\d+)`)

// MissingMembers reads a verdict that a gang was not whole when the scheduler looked: how many members there were, and
// how many there must be. It reports false for every other verdict.
func MissingMembers(verdict string) (there, all int, ok bool) {
	match := missingMembers.FindStringSubmatch(verdict)
	if match == nil {
		return 0, 0, false
	}
	there, _ = strconv.Atoi(match[1])
	all, _ = strconv.Atoi(match[2])
	return there, all, true
}

// Verdict leaves out of a scheduler's message what does not help: the count of nodes that begins it, and the
// outcome of the search for victims that ends it.
func Verdict(message string) string {
	message = strings.ReplaceAll(message, excludedNodes, "are in another pool or have another GPU type")
	if there, all, ok := MissingMembers(message); ok {
		return fmt.Sprintf("%d of the %d members of the job were there when the scheduler looked", there, all)
	}
	if _, rest, ok := strings.Cut(message, "nodes are available: "); ok {
		message = rest
	}
	for _, tail := range []string{" preemption: ", " no new claims to deallocate"} {
		message, _, _ = strings.Cut(message, tail)
	}
	return strings.TrimRight(message, " .,")
}
