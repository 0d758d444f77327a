package main

import (
	"fmt"
	"io"
	"time"

	"g8s.host/gpu-scheduler/test/bench/series"
)

// report writes the table of docs/monitoring.md.
func (w *world) report(out io.Writer) {
	fmt.Fprintf(out, "%d nodes in %d pools, %d jobs, a look every %s:\n\n", w.nodes, w.pools, w.jobs, documented)
	fmt.Fprintln(out, "| program | a scrape | of which Prometheus keeps | CPU of the program, of a core |")
	fmt.Fprintln(out, "|---|---|---|---|")
	var scraped, kept series.Weight
	var all time.Duration
	for _, p := range w.programs {
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", p.name, p.scraped, p.kept, share(p.perScrape))
		scraped.Series, scraped.Bytes = scraped.Series+p.scraped.Series, scraped.Bytes+p.scraped.Bytes
		kept.Series, kept.Bytes = kept.Series+p.kept.Series, kept.Bytes+p.kept.Bytes
		all += p.perScrape
	}
	fmt.Fprintf(out, "| all | %s | %s | %s |\n", scraped, kept, share(all))
	fmt.Fprintf(out, "\nPrometheus itself: %s of a core.\n", share(w.perRound))
}

// share is CPU time each documented interval as a share of a core.
func share(each time.Duration) string {
	return fmt.Sprintf("%.2f %%", 100*each.Seconds()/documented.Seconds())
}
