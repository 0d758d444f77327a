package server

import "testing"

// TestSegmentsOfWhateverIsWritten: users may write anything into the document of a job that is there.
func TestSegmentsOfWhateverIsWritten(t *testing.T) {
	in := func(resources any) map[string]any { return map[string]any{"resources": resources} }
	topology := func(segment, level any) map[string]any {
		return in(map[string]any{"topology": map[string]any{"segment": segment, "level": level}})
	}
	for name, tc := range map[string]struct {
		document map[string]any
		size     int
	}{
		"none":               {nil, 0},
		"no topology":        {in(map[string]any{"gpu": 1}), 0},
		"a segment":          {topology(16, "rack"), 16},
		"no number":          {topology("many", "rack"), 0},
		"a fraction":         {topology(1.5, "rack"), 0},
		"less than nothing":  {topology(-1, "rack"), 0},
		"no level":           {topology(16, []any{"rack"}), 0},
		"resources of text":  {in("all"), 0},
		"more than there is": {topology(uint64(1<<63), "rack"), 0},
	} {
		if size, _ := requestedSegments(tc.document); size != tc.size {
			t.Errorf("%s: segments of %d, want %d", name, size, tc.size)
		}
	}
}
