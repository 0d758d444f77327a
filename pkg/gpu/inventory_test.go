package gpu

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestInventoryIsReadBackAsItWasWritten(t *testing.T) {
	for name, inv := range map[string]Inventory{
		"hybrid cube mesh":        hybridCubeMesh(),
		"NVSwitch":                nvSwitch(16),
		"no cards at all":         {GPUs: []GPU{}},
		"unequal and broken ones": inventory(4, sized(24576, 0, 81920), unhealthy(2)),
	} {
		t.Run(name, func(t *testing.T) {
			text, err := inv.Encode()
			if err != nil {
				t.Fatal(err)
			}
			got, err := ParseInventory(text)
			if err != nil {
				t.Fatalf("reading %s: %v", text, err)
			}
			if diff := cmp.Diff(inv, got); diff != "" {
				t.Errorf("inventory (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseInventory(t *testing.T) {
	zero := 0
	card := GPU{UUID: "GPU-a", Index: 0, MemoryMiB: 81920, NUMANode: &zero, PCIeSwitch: "0000:0e:00.0", Health: Healthy}
	cases := map[string]struct {
		text    string
		want    []GPU
		wantErr string
	}{
		"every field of a card": {
			text: `{"version":1,"gpus":[{"uuid":"GPU-a","index":0,"memoryMiB":81920,"numaNode":0,"pcieSwitch":"0000:0e:00.0","health":"Healthy"}]}`,
			want: []GPU{card},
		},
		"a field of a later writer is ignored": {
			text: `{"version":1,"driver":"580.1","gpus":[{"uuid":"GPU-a","index":0,"health":"Healthy","fanPercent":40}]}`,
			want: []GPU{{UUID: "GPU-a", Health: Healthy}},
		},
		"cards come in order of index": {
			text: `{"version":1,"gpus":[{"uuid":"b","index":5,"health":"Healthy"},{"uuid":"a","index":2,"health":"Xid79"}]}`,
			want: []GPU{{UUID: "a", Index: 2, Health: "Xid79"}, {UUID: "b", Index: 5, Health: Healthy}},
		},
		"no JSON":         {text: `gpus: 8`, wantErr: "invalid character"},
		"empty":           {text: ``, wantErr: "unexpected end"},
		"two values":      {text: `{"version":1} {}`, wantErr: "after top-level value"},
		"a later version": {text: `{"version":2,"gpus":[]}`, wantErr: "version is 2, want 1"},
		"no version":      {text: `{"gpus":[]}`, wantErr: "version is 0, want 1"},
		"a field twice":   {text: `{"version":1,"gpus":[],"gpus":[]}`, wantErr: `duplicate field "gpus"`},
		"since when a card is ill, in whatever zone": {
			text: `{"version":1,"gpus":[{"uuid":"a","index":2,"health":"Xid79","since":"2026-11-22T16:03:11+02:00"}]}`,
			want: []GPU{{UUID: "a", Index: 2, Health: "Xid79", Since: time.Date(2026, 11, 22, 14, 3, 11, 0, time.UTC)}},
		},
		"a time long ago": {
			text: `{"version":1,"gpus":[{"uuid":"a","index":2,"health":"Xid79","since":"1999-11-22T16:03:11Z"}]}`, wantErr: "since is in the year 1999",
		},
		"a time that is none":       {text: `{"version":1,"gpus":[{"uuid":"a","index":2,"health":"Xid79","since":"noon"}]}`, wantErr: "noon"},
		"a field in the wrong case": {text: `{"version":1,"gpus":[{"UUID":"a","index":0,"health":"Healthy"}]}`, wantErr: `gpus[0]: uuid is ""`},
		"a number as a string":      {text: `{"version":1,"gpus":[{"uuid":"a","index":"0"}]}`, wantErr: "cannot unmarshal"},
		"no health, so the card may not be used": {
			text: `{"version":1,"gpus":[{"uuid":"a","index":0}]}`, wantErr: `gpus[0]: health is ""`,
		},
		"health is a sentence": {
			text: `{"version":1,"gpus":[{"uuid":"a","index":0,"health":"not so well"}]}`, wantErr: "one CamelCase word",
		},
		"a UUID twice": {
			text: `{"version":1,"gpus":[{"uuid":"a","index":0,"health":"Healthy"},{"uuid":"a","index":1,"health":"Healthy"}]}`, wantErr: `gpus[1]: uuid "a" is there twice`,
		},
		"an index twice": {
			text: `{"version":1,"gpus":[{"uuid":"a","index":1,"health":"Healthy"},{"uuid":"b","index":1,"health":"Healthy"}]}`, wantErr: "index 1 is not above 1",
		},
		"a negative index":      {text: `{"version":1,"gpus":[{"uuid":"a","index":-1,"health":"Healthy"}]}`, wantErr: "index is -1, want 0 to 255"},
		"memory of a petabyte":  {text: `{"version":1,"gpus":[{"uuid":"a","index":0,"memoryMiB":1099511627776,"health":"Healthy"}]}`, wantErr: "memoryMiB is 1099511627776"},
		"memory beyond 63 bits": {text: `{"version":1,"gpus":[{"uuid":"a","index":0,"memoryMiB":9223372036854775808,"health":"Healthy"}]}`, wantErr: "cannot unmarshal"},
		"a NUMA node of -1, as sysfs has it when there is none": {
			text: `{"version":1,"gpus":[{"uuid":"a","index":0,"numaNode":-1,"health":"Healthy"}]}`, wantErr: "or nothing when it is unknown",
		},
		"a switch with a newline": {
			text: `{"version":1,"gpus":[{"uuid":"a","index":0,"pcieSwitch":"a\nb","health":"Healthy"}]}`, wantErr: "pcieSwitch",
		},
		"too long": {text: strings.Repeat(" ", maxInventorySize+1), wantErr: "65537 bytes, want at most 65536"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseInventory(tc.text)
			if !errorHas(err, tc.wantErr) {
				t.Fatalf("error is %v, want %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got.GPUs); diff != "" {
				t.Errorf("cards (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateLinks(t *testing.T) {
	cases := map[string]struct {
		links   []Link
		wantErr string
	}{
		"a bandwidth is enough":           {links: []Link{{GPUs: []int{0, 1}, BandwidthGBps: 300}}},
		"so is a number of links":         {links: []Link{{GPUs: []int{0, 1, 2, 3}, NVLinks: 12}}},
		"a link to nowhere":               {links: []Link{{GPUs: []int{0, 8}, NVLinks: 1}}, wantErr: "links[0]: no GPU has index 8"},
		"a link to itself":                {links: []Link{{GPUs: []int{1, 1}, NVLinks: 1}}, wantErr: "GPU 1 is there twice"},
		"a link of one":                   {links: []Link{{GPUs: []int{1}, NVLinks: 1}}, wantErr: "1 gpus, want 2 to 64"},
		"no bandwidth":                    {links: []Link{{GPUs: []int{0, 1}}}, wantErr: "the bandwidth is 0 GB/s, want 16 to 65535"},
		"slower than PCIe":                {links: []Link{{GPUs: []int{0, 1}, BandwidthGBps: 15}}, wantErr: "the bandwidth is 15 GB/s"},
		"faster than 16 bits":             {links: []Link{{GPUs: []int{0, 1}, BandwidthGBps: 65536}}, wantErr: "the bandwidth is 65536 GB/s"},
		"fewer than no links":             {links: []Link{{GPUs: []int{0, 1}, NVLinks: -1}}, wantErr: "nvlinks is -1"},
		"a pair twice, also crosswise":    {links: []Link{{GPUs: []int{0, 1, 2}, NVLinks: 2}, {GPUs: []int{2, 1}, NVLinks: 4}}, wantErr: "links[1]: GPUs 1 and 2 are linked twice"},
		"every fault is told, not one":    {links: []Link{{GPUs: []int{0}}, {GPUs: []int{9, 8}}}, wantErr: "links[1]: no GPU has index 9"},
		"disjoint groups are no conflict": {links: []Link{{GPUs: []int{0, 1}, NVLinks: 2}, {GPUs: []int{2, 3}, NVLinks: 4}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inv := inventory(4)
			inv.Links = tc.links
			if err := inv.Validate(); !errorHas(err, tc.wantErr) {
				t.Errorf("error is %v, want %q", err, tc.wantErr)
			}
		})
	}
}

func TestCardsBeyondASetAreRefused(t *testing.T) {
	inv := inventory(MaxGPUs + 1)
	if _, err := NewAllocator(inv, nil); !errorHas(err, "65 GPUs, want at most 64") {
		t.Errorf("error is %v", err)
	}
	if _, err := inv.Encode(); !errorHas(err, "65 GPUs, want at most 64") {
		t.Errorf("error is %v", err)
	}
}

// errorHas reports whether an error has some text; "" wants no error.
func errorHas(err error, text string) bool {
	if text == "" {
		return err == nil
	}
	return err != nil && strings.Contains(err.Error(), text)
}
