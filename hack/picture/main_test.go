package main

import (
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/test/golden"
)

func TestThePictureOfASmallCluster(t *testing.T) {
	list, err := os.Open("testdata/gpus.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = list.Close() }()
	var out strings.Builder
	if err := draw(list, &out, `Two pools & a "share" <1`); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/gpus.svg", out.String())
	for decoder := xml.NewDecoder(strings.NewReader(out.String())); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture is not XML: %v", err)
		}
	}
}

func TestWhatIsNoListOfGPUs(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"nothing":        {"", "EOF: want the output of gpuctl top gpus -o json"},
		"a table":        {"NODE  GPU", "invalid character 'N' looking for beginning of value: want the output of gpuctl top gpus -o json"},
		"an empty list":  {`{"items": []}`, "the list has no items: want the output of gpuctl top gpus -o json"},
		"a list of jobs": {`{"items": [{"name": "sft", "pool": "train"}]}`, `items[0] is not a GPU: node "", pool "train", state "": want the output of gpuctl top gpus -o json`},
		"a new state":    {`{"items": [{"node": "a", "pool": "b", "state": "lent"}]}`, `items[0] is not a GPU: node "a", pool "b", state "lent": want the output of gpuctl top gpus -o json`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := draw(strings.NewReader(tc.in), io.Discard, ""); err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

// TestColors: a job keeps its color on other nodes and beside other jobs, and no two jobs share one while there are enough.
func TestColors(t *testing.T) {
	on := func(node string, jobs ...string) (gpus []gpu) {
		for i, job := range jobs {
			gpus = append(gpus, gpu{Node: node, Pool: "p", State: "whole", Index: i, Holders: []holder{{"team", job, job + "-0"}}})
		}
		return gpus
	}
	one, another := newPicture(on("a", "sft", "eval")), newPicture(on("b", "eval", "sft"))
	if diff := cmp.Diff(one.color, another.color); diff != "" {
		t.Errorf("colors on node a and on node b (-a +b):\n%s", diff)
	}
	all := newPicture(on("a", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j"))
	taken := map[string]bool{}
	for color := range maps.Values(all.color) {
		taken[color] = true
	}
	if len(taken) != len(colors) {
		t.Errorf("%d jobs have %d colors of %d", len(all.color), len(taken), len(colors))
	}
}
