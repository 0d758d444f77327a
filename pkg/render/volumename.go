package render

import (
	"strconv"
	"strings"
)

// wellKnown maps folder names that are common in machine learning to volume names.
var wellKnown = map[string]string{
	"dataset": "dataset-volume", "datasets": "dataset-volume",
	"model": "model-volume", "models": "model-volume",
	"cache":  "cache-volume",
	"output": "output-volume", "outputs": "output-volume",
	"checkpoint": "checkpoints-volume", "checkpoints": "checkpoints-volume",
	"data": "data-volume",
	"work": "work-volume", "workspace": "work-volume",
	"log": "logs-volume", "logs": "logs-volume",
}

// volumeNames are the volume names used so far in a pod, and the number of requests.
type volumeNames struct {
	taken map[string]bool
	asked int
}

// nextName returns the volume name for the next path: the first well-known folder in it whose name is not taken, then the first one with a number,
// then workdir-<n> for the n-th path.
func (v *volumeNames) nextName(path string) string {
	v.asked++
	first := ""
	for folder := range strings.SplitSeq(strings.ToLower(path), "/") {
		name, known := wellKnown[folder]
		switch {
		case !known:
		case !v.taken[name]:
			return v.takeName(name)
		case first == "":
			first = name
		}
	}
	if first == "" {
		return v.takeName("workdir-" + strconv.Itoa(v.asked))
	}
	n := 2
	for v.taken[first+"-"+strconv.Itoa(n)] {
		n++
	}
	return v.takeName(first + "-" + strconv.Itoa(n))
}

func (v *volumeNames) takeName(name string) string {
	if v.taken == nil {
		v.taken = map[string]bool{}
	}
	v.taken[name] = true
	return name
}
