package idle

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/gpumetrics"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// past asks a Prometheus that answers with these series, of steps of five minutes until noon.
func past(t *testing.T, steps int, series string) *gpumetrics.Past {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		series := series
		if strings.HasPrefix(r.FormValue("query"), "count_over_time(") {
			series = number.ReplaceAllString(series, `,"10"]`) // ten measurements in each step
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, series)
	}))
	defer server.Close()
	client, err := gpumetrics.NewClient(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.ReadPast(context.Background(), noon, 5*time.Minute, steps)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// number is a value of a series.
var number = regexp.MustCompile(`,"[^"]*"\]`)

// card is a series with a value for each step until noon; "" is none.
func card(labels string, values ...string) string {
	text := ""
	for i, value := range values {
		if value != "" {
			at := noon.Add(-time.Duration(len(values)-1-i) * 5 * time.Minute).Unix()
			text += fmt.Sprintf(`[%d,%q],`, at, value)
		}
	}
	return fmt.Sprintf(`{"metric":{%s},"values":[%s]}`, labels, text[:max(0, len(text)-1)])
}

func TestForHowLongAJobIsIdle(t *testing.T) {
	const a, b = `"UUID":"a","Hostname":"n","gpu":"0"`, `"UUID":"b","Hostname":"n","gpu":"1"`
	long := noon.Add(-24 * time.Hour)
	one := []Pod{{Started: long, GPUs: []GPU{{UUID: "a", Node: "n"}}}}
	two := []Pod{{Started: long, GPUs: []GPU{{UUID: "a", Node: "n"}, {UUID: "b", Node: "n", Index: 1}}}}
	tests := map[string]struct {
		pods   []Pod
		series string
		want   time.Duration
	}{
		"all the time":                  {pods: one, series: card(a, "0", "1", "0", "2"), want: 20 * time.Minute},
		"since it was busy":             {pods: one, series: card(a, "0", "90", "0", "2"), want: 10 * time.Minute},
		"it is busy":                    {pods: one, series: card(a, "0", "0", "0", "5")},
		"a gap, and what is next to it": {pods: one, series: card(a, "0", "", "0", "0"), want: 5 * time.Minute},
		"nothing of late":               {pods: one, series: card(a, "0", "0", "0", "")},
		"nothing at all":                {pods: one, series: card(b, "0", "0", "0", "0")},
		"no number":                     {pods: one, series: card(a, "0", "0", "NaN", "0"), want: 5 * time.Minute},
		"less than nothing":             {pods: one, series: card(a, "0", "0", "-1", "0"), want: 5 * time.Minute},
		"more than there is":            {pods: one, series: card(a, "0", "0", "101", "0"), want: 5 * time.Minute},
		"what is said twice, once busy": {pods: one, series: card(a+`,"instance":"x"`, "0", "0", "0", "0") + "," + card(a+`,"instance":"y"`, "0", "0", "80", "0"), want: 5 * time.Minute},
		"what is said twice, once not to be believed": {pods: one,
			series: card(a+`,"instance":"x"`, "0", "0", "NaN", "0") + "," + card(a+`,"instance":"y"`, "0", "0", "0", "0"), want: 5 * time.Minute},
		"an exporter that was started again":  {pods: one, series: card(a+`,"instance":"x"`, "0", "0", "", "") + "," + card(a+`,"instance":"y"`, "", "", "0", "0"), want: 20 * time.Minute},
		"two cards, one busy":                 {pods: two, series: card(a, "0", "0", "0", "0") + "," + card(b, "0", "0", "50", "0"), want: 5 * time.Minute},
		"two cards, of one nothing":           {pods: two, series: card(a, "0", "0", "0", "0")},
		"two pods, one busy":                  {pods: append(one, Pod{Started: long, GPUs: []GPU{{UUID: "b"}}}), series: card(a, "0", "0", "0", "0") + "," + card(b, "0", "0", "0", "60")},
		"by its place, without a UUID":        {pods: []Pod{{Started: long, GPUs: []GPU{{UUID: "n-0", Node: "n"}}}}, series: card(`"Hostname":"n","gpu":"0"`, "0", "0", "0", "0"), want: 20 * time.Minute},
		"a card that was exchanged, by place": {pods: []Pod{{Started: long, GPUs: []GPU{{UUID: "n-0", Node: "n"}}}}, series: card(a, "0", "0", "0", "0") + "," + card(`"UUID":"z","Hostname":"n","gpu":"0"`, "0", "70", "0", "0"), want: 10 * time.Minute},
		"it has run for seven minutes":        {pods: []Pod{{Started: noon.Add(-7 * time.Minute), GPUs: []GPU{{UUID: "a"}}}}, series: card(a, "0", "0", "0", "0"), want: 7 * time.Minute},
		"it does not run":                     {pods: []Pod{{GPUs: []GPU{{UUID: "a"}}}}, series: card(a, "0", "0", "0", "0")},
		"its cards are not known":             {pods: []Pod{{Started: long}}, series: card(a, "0", "0", "0", "0")},
		"no pods":                             {series: card(a, "0", "0", "0", "0")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := IdleDuration(tc.pods, past(t, 4, tc.series), 5); got != tc.want {
				t.Errorf("idle for %s, want %s", got, tc.want)
			}
		})
	}
}

// TestTwoPastsAreOne: what is known of the time before is put in front.
func TestTwoPastsAreOne(t *testing.T) {
	const a = `"UUID":"a","Hostname":"n","gpu":"0"`
	pods := []Pod{{Started: noon.Add(-24 * time.Hour), GPUs: []GPU{{UUID: "a"}}}}
	for name, tc := range map[string]struct {
		before string
		want   time.Duration
	}{
		"idle before":    {before: card(a, "9", "0"), want: 15 * time.Minute},
		"busy before":    {before: card(a, "0", "9"), want: 10 * time.Minute},
		"unknown before": {before: "", want: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			now := past(t, 2, card(a, "0", "0"))
			now.Prepend(past(t, 2, tc.before))
			if got := IdleDuration(pods, now, 5); got != tc.want {
				t.Errorf("idle for %s, want %s", got, tc.want)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	const hour = time.Hour
	for name, tc := range map[string]struct {
		idle, timeout, warn time.Duration
		want                Decision
	}{
		"busy":                       {timeout: hour, warn: hour / 2, want: Leave},
		"for a while":                {idle: hour / 2, timeout: hour, warn: hour / 2, want: Warn},
		"for as long as it may":      {idle: hour, timeout: hour, warn: hour / 2, want: Pause},
		"it does not ask to be":      {idle: 9 * hour, warn: hour / 2, want: Warn},
		"nobody wants to know":       {idle: 9 * hour, want: Leave},
		"paused before it is warned": {idle: hour, timeout: hour, warn: 2 * hour, want: Pause},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Decide(tc.idle, tc.timeout, tc.warn); got != tc.want {
				t.Errorf("verdict %d, want %d", got, tc.want)
			}
		})
	}
}
