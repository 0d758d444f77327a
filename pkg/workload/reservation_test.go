package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReservation(t *testing.T) {
	utc := func(text string) *time.Time {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return &at
	}
	head := "kind: reservation\nmetadata: {name: r}\n"
	tests := map[string]struct {
		text string
		want Reservation
	}{
		"nodes, with an offset": {"nodes: [a, b]\nfrom: 2026-12-01 14:00 +01:00\nto: 2026-12-01 18:00 +01:00\n",
			Reservation{Name: "r", Nodes: []string{"a", "b"}, From: utc("2026-12-01T13:00:00Z"), To: utc("2026-12-01T17:00:00Z")}},
		"a pool, in UTC, for a while": {"pool: h100\nfrom: 2026-12-01T14:00:00Z\nfor: 1d2h\nnamespaces: [x, y]\nreason: paper\nevict: true\n",
			Reservation{Name: "r", Pool: "h100", From: utc("2026-12-01T14:00:00Z"), For: 26 * time.Hour, Namespaces: []string{"x", "y"}, Reason: "paper", Evict: true}},
		"from now on":             {"nodes: a\nfrom: now\nfor: 4h\nnamespace: x\n", Reservation{Name: "r", Nodes: []string{"a"}, For: 4 * time.Hour, Namespaces: []string{"x"}}},
		"a zone by its name":      {"nodes: a\nfrom: 2026-07-01 14:00 Europe/Berlin\nuntil: 2026-12-01 14:00:30 Europe/Berlin\n", Reservation{Name: "r", Nodes: []string{"a"}, From: utc("2026-07-01T12:00:00Z"), To: utc("2026-12-01T13:00:30Z")}},
		"times in quotes, in UTC": {"nodes: a\nfrom: \"2026-12-01 14:00 UTC\"\nto: '2026-12-01T14:01Z'\n", Reservation{Name: "r", Nodes: []string{"a"}, From: utc("2026-12-01T14:00:00Z"), To: utc("2026-12-01T14:01:00Z")}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			docs, diagnostics := Parse("t", []byte(head+tc.text))
			if len(diagnostics) > 0 || len(docs) != 1 {
				t.Fatalf("%d documents:\n%s", len(docs), diagnostics)
			}
			if diff := cmp.Diff(tc.want, *docs[0].Reservation, cmp.Comparer(time.Time.Equal)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReservationsThatMeanNothing(t *testing.T) {
	const from, to = "from: 2026-12-01T14:00:00Z\n", "to: 2026-12-01T18:00:00Z\n"
	tests := map[string]struct{ text, want string }{
		"no nodes":                 {from + to, "the reservation keeps no node"},
		"an empty list":            {"nodes: []\n" + from + to, "name some, or write pool"},
		"a pool and nodes":         {"pool: p\nnodes: a\n" + from + to, "exclude each other"},
		"no beginning":             {"nodes: a\n" + to, "from is missing"},
		"no end":                   {"nodes: a\n" + from, "the reservation has no end"},
		"two ends":                 {"nodes: a\n" + from + to + "for: 4h\n", "exclude each other"},
		"an end before it":         {"nodes: a\nfrom: 2026-12-01T18:00:00Z\n" + to, "to is not after from"},
		"no time at all":           {"nodes: a\nfrom: 2026-12-01T14:00:00Z\nfor: 0s\n", "too short"},
		"a day":                    {"nodes: a\nfrom: 2026-12-01\n" + to, "says no time of day in a zone"},
		"a time without a zone":    {"nodes: a\nfrom: 2026-12-01 14:00\n" + to, "says no time of day in a zone"},
		"one that ISO writes so":   {"nodes: a\nfrom: 2026-12-01T14:00:00\n" + to, "says no time of day in a zone"},
		"an abbreviation":          {"nodes: a\nfrom: 2026-12-01 14:00 CST\n" + to, `"CST" is none`},
		"the zone of this machine": {"nodes: a\nfrom: 2026-12-01 14:00 Local\n" + to, `"Local" is none`},
		"a file that is no zone":   {"nodes: a\nfrom: 2026-12-01 14:00 ../../etc/passwd\n" + to, "is none"},
		"an hour that is left out": {"nodes: a\nfrom: 2026-03-29 02:30 Europe/Berlin\n" + to, "where clocks are changed"},
		"an hour that comes twice": {"nodes: a\nfrom: 2026-10-25 02:30 Europe/Berlin\n" + to, "where clocks are changed"},
		"words":                    {"nodes: a\nfrom: tomorrow\n" + to, "is not a time"},
		"the end of it now":        {"nodes: a\n" + from + "to: now\n", "is not a time"},
		"no such day":              {"nodes: a\nfrom: 2026-13-01 14:00 UTC\n" + to, "is not a time"},
		"nobody, written out":      {"nodes: a\n" + from + to + "namespaces: []\n", "leave it out for a maintenance window"},
		"too many nodes":           {"nodes: [" + strings.Repeat("a, ", 256) + "b]\n" + from + to, "at most 256 are allowed"},
		"a node that cannot be":    {"nodes: A_b\n" + from + to, "is not a valid name"},
		"a long reason":            {"nodes: a\n" + from + to + "reason: " + strings.Repeat("很", 257) + "\n", "is too long: it has 257 characters"},
		"a reason that paints":     {"nodes: a\n" + from + to + "reason: \"\\e[31m\"\n", "control character"},
		"an answer to evict":       {"nodes: a\n" + from + to + "evict: 5m\n", "is not true or false"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, diagnostics := Parse("t", []byte("kind: reservation\nmetadata: {name: r}\n"+tc.text))
			if !diagnostics.HasErrors() || !strings.Contains(diagnostics.String(), tc.want) {
				t.Errorf("got %q, want an error with %q", diagnostics.String(), tc.want)
			}
		})
	}
}

func TestWindow(t *testing.T) {
	made, from, to := time.Unix(1000, 0), time.Unix(2000, 0), time.Unix(3000, 0)
	for name, tc := range map[string]struct {
		of       Reservation
		from, to time.Time
	}{
		"times":           {Reservation{From: &from, To: &to}, from, to},
		"now, for a time": {Reservation{For: time.Minute}, made, time.Unix(1060, 0)},
		"now, until":      {Reservation{To: &to}, made, to},
		"later":           {Reservation{From: &from, For: time.Minute}, from, time.Unix(2060, 0)},
	} {
		if from, to := tc.of.Window(made); !from.Equal(tc.from) || !to.Equal(tc.to) {
			t.Errorf("%s: from %s to %s, want %s to %s", name, from, to, tc.from, tc.to)
		}
	}
}
