package series

import (
	"bytes"
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// most is the bound for all three together, as Prometheus keeps them.
const most = 6000

// written is what a registry shows, as text.
func written(t *testing.T, from prometheus.Gatherer) string {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// TestSeries holds the three programs together to the bound, and says how much each is: docs/monitoring.md has the figures.
func TestSeries(t *testing.T) {
	nothing, total := regexp.MustCompile("^$"), Weight{}
	for program, text := range map[string]string{
		"gpu-scheduler": scheduler(t), "gpu-controller": controller(t), "gpuctl-server": server(t),
	} {
		dropped, err := Dropped(program)
		if err != nil {
			t.Fatal(err)
		}
		kept := Weigh(text, dropped)
		t.Logf("%s: %s are scraped, %s kept", program, Weigh(text, nothing), kept)
		t.Logf("most of them: %s", Heaviest(text, dropped))
		total.Series += kept.Series
		total.Bytes += kept.Bytes
		if kept.Series < 100 {
			t.Errorf("%s has %d series, so the count proves little", program, kept.Series)
		}
	}
	t.Logf("all: %s kept", total)
	if total.Series > most {
		t.Errorf("%d series are kept, want %d or fewer", total.Series, most)
	}
}
