package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// explainReport writes a diagnosis for people: the cause first, then what to do, then the rest.
func explainReport(d *description, report diagnosis.Report, now time.Time) error {
	subject := phrase.Textf("Job %s is %s", report.Job, d.coloredStatus(report))
	if report.Kind == diagnosis.KindPod {
		subject = phrase.Textf("Pod %s is %s", report.Job, d.coloredStatus(report))
	}
	d.writeWrapped(subject.Localize(d.language)+headlineText(report, d.language), len(indent))
	if len(report.Findings) > 0 {
		d.writeAdvice(report.Findings[0].AdviceIn(d.language))
		if changesFile(report.Findings) {
			how := phrase.Textf("(a field of its YAML: gpuctl edit %s -n %s; or change it in its file, then gpuctl apply -f FILE --replace)",
				report.Job, report.Namespace)
			d.writeWrapped(indent+how.Localize(d.language), len(indent)+1)
		}
	}
	explainOthers(d, report.Findings)
	if err := describeNearest(d, report); err != nil {
		return err
	}
	if err := describeRows(d, phrase.Textf("Where it is").Localize(d.language), report.Placements, placementColumns(d.language)); err != nil {
		return err
	}
	if lines := segmentLines(d, report.Segments); len(lines) > 0 {
		d.writeSection(phrase.Textf("Its segments").Localize(d.language))
		for _, line := range lines {
			d.writeWrapped(indent+line, len(indent))
		}
	}
	for _, record := range report.Records {
		if err := explainRecord(d, record, now); err != nil {
			return err
		}
	}
	if report.Verdict != "" {
		d.writeSection(phrase.Textf("In the scheduler's words").Localize(d.language))
		d.writeWrapped(indent+inventory.ShortenVerdict(report.Verdict), len(indent))
	}
	if len(report.Unread) > 0 {
		d.writeSection(phrase.Textf("Less exact, because you may not read").Localize(d.language))
		unread := make([]phrase.Text, len(report.Unread))
		for i, part := range report.Unread {
			unread[i] = part.Says()
		}
		fmt.Fprintln(d.out, indent+phrase.Join(unread, phrase.Textf(", ")).Localize(d.language))
	}
	return nil
}

// explainOthers writes all findings but the first.
func explainOthers(d *description, findings []diagnosis.Finding) {
	if len(findings) < 2 {
		return
	}
	d.writeSection(phrase.Textf("Also").Localize(d.language))
	for _, finding := range findings[1:] {
		d.writeWrapped(indent+phrase.Textf("%s: %s%s", finding.Cause, finding.TextIn(d.language), exampleNodes(finding)).Localize(d.language), 2*len(indent))
		for _, advice := range finding.AdviceIn(d.language) {
			d.writeWrapped(indent+indent+"- "+advice, 3*len(indent))
		}
	}
}

// joinWords joins words with commas.
func joinWords[T ~string](words []T) string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = string(word)
	}
	return strings.Join(out, ", ")
}

func (d *description) coloredStatus(report diagnosis.Report) string {
	if !d.style.color {
		return string(report.Status)
	}
	return statusColor(inventory.Job{Status: report.Status}) + string(report.Status) + colorReset
}

// headlineText returns the first finding, to be appended to the status of the job.
func headlineText(report diagnosis.Report, language phrase.Language) string {
	if len(report.Findings) == 0 {
		return ""
	}
	first := report.Findings[0]
	var out phrase.Text
	if string(first.Cause) != string(report.Status) {
		out = phrase.Textf(" (%s)", first.Cause)
	}
	return out.Addf(": %s%s", first.TextIn(language), exampleNodes(first)).Localize(language)
}

func exampleNodes(finding diagnosis.Finding) phrase.Text {
	if len(finding.Examples) == 0 {
		return nil
	}
	text := phrase.Quote(strings.Join(finding.Examples, ", "))
	if more := finding.Nodes - len(finding.Examples); more > 0 {
		text = text.Addf(" and %d more", more)
	}
	return phrase.Textf(" (%s)", text)
}

// changesFile reports whether any advice is to change the job's YAML.
func changesFile(findings []diagnosis.Finding) bool {
	return slices.ContainsFunc(findings, func(finding diagnosis.Finding) bool {
		return slices.ContainsFunc(finding.Steps, func(step diagnosis.Step) bool { return step.Action == reason.SetField })
	})
}

func (d *description) writeAdvice(advice []string) {
	if len(advice) == 0 {
		return
	}
	d.writeSection(phrase.Textf("What to do").Localize(d.language))
	for _, line := range advice {
		d.writeWrapped(indent+"- "+line, 2*len(indent))
	}
}

// describeNearest writes the nodes that come closest to fitting the job.
func describeNearest(d *description, report diagnosis.Report) error {
	return describeRows(d, phrase.Textf("Nearest nodes").Localize(d.language), report.NearMisses, nearMissColumns(d.language))
}

func nearMissColumns(language phrase.Language) []column[diagnosis.NearMiss] {
	type miss = diagnosis.NearMiss
	return []column[miss]{
		{header: phrase.Textf("NODE").Localize(language), value: func(m miss) string { return m.Node }},
		{header: phrase.Textf("GPUS").Localize(language), value: func(m miss) string { return language.TranslateMessage(m.Detail) }},
		{header: phrase.Textf("HELD BY").Localize(language), value: func(m miss) string {
			held := make([]string, 0, mostHolders+1)
			for i, holder := range m.Holders {
				if i == mostHolders {
					held = append(held, phrase.Textf("%d more", len(m.Holders)-i).Localize(language))
					break
				}
				held = append(held, holderText(holder, language))
			}
			return strings.Join(held, ", ")
		}},
	}
}

// mostHolders is the maximum number of holders that a row names.
const mostHolders = 3

// holderText formats the holder of GPUs for a narrow column.
func holderText(h diagnosis.Holder, language phrase.Language) string {
	out := fmt.Sprintf("%s/%s %d", h.Namespace, cmp.Or(h.Job, h.Pod), h.GPUs)
	var more []string
	if h.Priority != "" {
		more = append(more, h.Priority)
	}
	if h.Ending {
		more = append(more, phrase.Textf("ending").Localize(language))
	}
	if len(more) > 0 {
		out += " (" + strings.Join(more, ", ") + ")"
	}
	return out
}

func placementColumns(language phrase.Language) []column[diagnosis.Placement] {
	type placement = diagnosis.Placement
	return []column[placement]{
		{header: phrase.Textf("POD").Localize(language), value: func(p placement) string { return p.Pod }},
		{header: phrase.Textf("NODE").Localize(language), value: func(p placement) string { return p.Node }},
		{header: phrase.Textf("POOL").Localize(language), value: func(p placement) string { return p.Pool }},
		{header: phrase.Textf("GPU-TYPE").Localize(language), value: func(p placement) string { return p.Type }},
		{header: phrase.Textf("GPUS").Localize(language), value: func(p placement) string { return deviceList(p.Devices) }},
		{header: phrase.Textf("CONNECTED BY").Localize(language), value: func(p placement) string { return language.TranslateMessage(p.Connection) }},
	}
}

// deviceList lists GPUs by index, ranges as 0-3, and the memory of shared ones.
func deviceList(devices []gpu.Device) string {
	var out []string
	for i := 0; i < len(devices); {
		if devices[i].MemoryMiB > 0 {
			out = append(out, fmt.Sprintf("%d (%d MiB)", devices[i].Index, devices[i].MemoryMiB))
			i++
			continue
		}
		first, last := i, i
		for last+1 < len(devices) && devices[last+1].Index == devices[last].Index+1 && devices[last+1].MemoryMiB == 0 {
			last++
		}
		if last-first < 2 { // two are not worth a range
			last = first
			out = append(out, strconv.Itoa(devices[first].Index))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", devices[first].Index, devices[last].Index))
		}
		i = last + 1
	}
	return strings.Join(out, ", ")
}

// explainRecord writes the scheduler's record of a pod.
func explainRecord(d *description, record explain.Record, now time.Time) error {
	last := record.Last
	title := phrase.Textf("Scheduler's record of pod %s (%s, %s ago)", record.Name, attemptText(record), formatAge(now, last.Time))
	d.writeSection(title.Localize(d.language))
	if last.Result == explain.Placed {
		placed := phrase.Textf("placed on %s", last.Node)
		if last.Feasible > 0 {
			placed = placed.Addf(", the best of %d nodes that could take it", last.Feasible)
		}
		fmt.Fprintln(d.out, indent+placed.Localize(d.language))
		if last.DevicesReason != "" {
			fmt.Fprintln(d.out, indent+phrase.Textf("GPUs: %s", last.DevicesReason).Localize(d.language))
		}
		if len(last.Candidates) == 0 {
			return nil
		}
		return writeTable(&indentWriter{out: d.out}, last.Candidates, candidateColumns(last.Candidates[0], d.language), d.style)
	}
	fmt.Fprintln(d.out, indent+phrase.Textf("none of %d nodes could take it", last.Nodes).Localize(d.language))
	if len(last.Reasons) == 0 {
		return nil
	}
	return writeTable(&indentWriter{out: d.out}, last.Reasons, []column[explain.Reason]{
		{header: phrase.Textf("NODES").Localize(d.language), value: func(r explain.Reason) string { return strconv.Itoa(r.Nodes) }},
		{header: phrase.Textf("REASON").Localize(d.language), value: func(r explain.Reason) string { return r.Text }},
	}, d.style)
}

// attemptText says which attempt the record is about, and whether the scheduler has explained it.
func attemptText(record explain.Record) phrase.Text {
	switch record.Explained {
	case 0:
		return phrase.Textf("attempt %d, not looked into", record.Attempts)
	case record.Attempts:
		return phrase.Textf("attempt %d", record.Attempts)
	}
	return phrase.Textf("attempt %d of %d", record.Explained, record.Attempts)
}

// candidateColumns returns a column for each part of the score.
func candidateColumns(first explain.Candidate, language phrase.Language) []column[explain.Candidate] {
	type candidate = explain.Candidate
	columns := []column[candidate]{
		{header: phrase.Textf("NODE").Localize(language), value: func(c candidate) string { return c.Node }},
		{header: phrase.Textf("SCORE").Localize(language), value: func(c candidate) string { return strconv.FormatInt(c.Score, 10) }},
	}
	for i, part := range first.Parts {
		columns = append(columns, column[candidate]{
			header: fmt.Sprintf("%s×%d", strings.ToUpper(part.Name), part.Weight),
			value: func(c candidate) string {
				if i >= len(c.Parts) {
					return ""
				}
				return strconv.FormatInt(c.Parts[i].Value, 10)
			},
		})
	}
	return columns
}
