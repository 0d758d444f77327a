package card

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// step is a line of what the program in a container says.
type step struct {
	Did      string   `json:"did"`
	Code     int      `json:"code"`
	Error    string   `json:"error"`
	UUIDs    []string `json:"uuids"`
	Nodes    []string `json:"nodes"`
	TotalMiB int64    `json:"totalMiB"`
}

// Codes of the CUDA driver.
const (
	codeOutOfMemory    = 2
	codeIllegalAddress = 700
)

// steps reads the log of a container, and the steps by what they did.
func steps(log string) (map[string]step, error) {
	found := map[string]step{}
	for line := range strings.Lines(log) {
		var one step
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			return nil, fmt.Errorf("the container says %q: %w", line, err)
		}
		found[one.Did] = one
	}
	return found, nil
}

// seesOnly returns what is wrong with what a container sees, "" where it is these cards and no others.
func seesOnly(said map[string]step, uuids, nodes []string) string {
	see, done := said["see"]
	switch {
	case said["load"].Error != "":
		return said["load"].Error
	case !done:
		return "it says nothing of cards"
	case see.Code != 0:
		return fmt.Sprintf("the driver answers with code %d", see.Code)
	}
	if got := slices.Sorted(slices.Values(see.UUIDs)); !slices.Equal(got, slices.Sorted(slices.Values(uuids))) {
		return fmt.Sprintf("it sees %v, want %v", got, uuids)
	}
	if got := said["nodes"].Nodes; !slices.Equal(got, nodes) {
		return fmt.Sprintf("it has the device nodes %v, want %v", got, nodes)
	}
	return ""
}

// seesNone returns what is wrong where a container is to see no card.
func seesNone(said map[string]step) string {
	if nodes := said["nodes"].Nodes; len(nodes) > 0 {
		return fmt.Sprintf("it has the device nodes %v", nodes)
	}
	if see, done := said["see"]; done && (see.Code == 0 || len(see.UUIDs) > 0) {
		return fmt.Sprintf("the driver shows it %v", see.UUIDs)
	}
	if _, ended := said["end"]; !ended {
		return "it did not come to an end"
	}
	return ""
}

// median returns the middle of some times, and the longest.
func median(times []time.Duration) (middle, longest time.Duration) {
	if len(times) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2], sorted[len(sorted)-1]
}
