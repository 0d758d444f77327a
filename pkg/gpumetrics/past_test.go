package gpumetrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

// TestCardsWithoutAPlaceAreToldApart by their UUIDs: that they seem to be in one place makes none of them unknown.
func TestCardsWithoutAPlaceAreToldApart(t *testing.T) {
	end := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value := map[bool]string{true: "10", false: "3"}[strings.HasPrefix(r.FormValue("query"), "count_over_time(")]
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[
			{"metric":{"UUID":"a"},"values":[[%[1]d,%[2]q]]},{"metric":{"UUID":"b"},"values":[[%[1]d,%[2]q]]}]}}`, end.Unix(), value)
	}))
	defer server.Close()
	client, err := NewClient(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	past, err := client.ReadPast(t.Context(), end, 5*time.Minute, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, uuid := range []string{"a", "b"} {
		if got := past.StepsFor(uuid, "", -1); len(got) != 1 || got[0] != 3 {
			t.Errorf("of %s is known %v, want 3", uuid, got)
		}
	}
}

// TestACardIsNotToldForAnother that has its place since the driver numbered the cards of the node anew.
func TestACardIsNotToldForAnother(t *testing.T) {
	end := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	series := func(uuid, index string) *model.SampleStream {
		return &model.SampleStream{
			Metric: model.Metric{labelUUID: model.LabelValue(uuid), labelIndex: model.LabelValue(index), nodeLabels[0]: "n1"},
			Values: []model.SamplePair{{Timestamp: model.TimeFromUnix(end.Unix()), Value: 90}},
		}
	}
	read := func(all ...*model.SampleStream) *Past {
		past := NewPast(end, 5*time.Minute, 1)
		for _, one := range all {
			past.addSeries(one, end, func(_, next float64) float64 { return next })
		}
		return past
	}
	renumbered, nameless := read(series("b", "0")), read(series("", "0"))
	after := read(series("", "0"))
	after.Prepend(read(series("b", "0")))
	tests := map[string]struct {
		past *Past
		uuid string
		want int // steps
	}{
		"the card itself":                               {renumbered, "b", 1},
		"another card that had its place":               {renumbered, "a", 0},
		"a card whose UUID is not known":                {renumbered, "n1-0", 1},
		"whoever is in the place":                       {renumbered, "", 1},
		"an exporter that names no card":                {nameless, "a", 1},
		"an exporter that named one before":             {after, "a", 0},
		"both name cards, and a is only now in place 0": {read(series("b", "0"), series("a", "0")), "a", 1},
	}
	for name, tc := range tests {
		if got := tc.past.StepsFor(tc.uuid, "n1", 0); len(got) != tc.want {
			t.Errorf("%s: %v, want %d steps", name, got, tc.want)
		}
	}
}
