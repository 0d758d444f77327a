package oracle

import (
	"fmt"
	"strconv"
	"strings"
)

// stale returns the bindings of leaders whose successors had bound pods before.
func stale(h History) []Violation {
	var violations []Violation
	var latest Binding
	latestTerm := int64(-1)
	for _, b := range h.Bindings() {
		if b.Epoch == "" {
			continue // of a scheduler without leader election
		}
		term, err := termOf(b.Epoch)
		switch {
		case err != nil:
			violations = append(violations, Violation{Revision: b.Revision, Rule: Stale, Node: b.Node, Pods: []string{b.Pod}, Detail: err.Error()})
		case term > latestTerm:
			latest, latestTerm = b, term
		case b.Epoch != latest.Epoch:
			violations = append(violations, Violation{Revision: b.Revision, Rule: Stale, Node: b.Node, Pods: []string{b.Pod},
				Detail: fmt.Sprintf("its epoch is %s, and %s of revision %d has %s", b.Epoch, latest.Pod, latest.Revision, latest.Epoch)})
		}
	}
	return violations
}

// termOf reads the number of the leadership from "<lease holder>/<lease transitions>".
func termOf(epoch string) (int64, error) {
	term, err := strconv.ParseInt(epoch[strings.LastIndexByte(epoch, '/')+1:], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the epoch %q: %w", epoch, err)
	}
	return term, nil
}
