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
	subject := phrase.Of("Job %s is %s", report.Job, d.paint(report))
	if report.Kind == diagnosis.KindPod {
		subject = phrase.Of("Pod %s is %s", report.Job, d.paint(report))
	}
	d.text(subject.In(d.language)+headline(report, d.language), len(indent))
	if len(report.Findings) > 0 {
		d.advise(report.Findings[0].AdviceIn(d.language))
		if changesFile(report.Findings) {
			how := phrase.Of("(a field of its YAML: gpuctl edit %s -n %s; or change it in its file, then gpuctl apply -f FILE --replace)",
				report.Job, report.Namespace)
			d.text(indent+how.In(d.language), len(indent)+1)
		}
	}
	explainOthers(d, report.Findings)
	if err := describeNearest(d, report); err != nil {
		return err
	}
	if err := describeRows(d, phrase.Of("Where it is").In(d.language), report.Placements, placementColumns(d.language)); err != nil {
		return err
	}
	if lines := segmentsIn(d, report.Segments); len(lines) > 0 {
		d.section(phrase.Of("Its segments").In(d.language))
		for _, line := range lines {
			d.text(indent+line, len(indent))
		}
	}
	for _, record := range report.Records {
		if err := explainRecord(d, record, now); err != nil {
			return err
		}
	}
	if report.Verdict != "" {
		d.section(phrase.Of("In the scheduler's words").In(d.language))
		d.text(indent+inventory.Verdict(report.Verdict), len(indent))
	}
	if len(report.Unread) > 0 {
		d.section(phrase.Of("Less exact, because you may not read").In(d.language))
		unread := make([]phrase.Text, len(report.Unread))
		for i, part := range report.Unread {
			unread[i] = part.Says()
		}
		fmt.Fprintln(d.out, indent+phrase.Join(unread, phrase.Of(", ")).In(d.language))
	}
	return nil
}

// explainOthers writes all findings but the first.
func explainOthers(d *description, findings []diagnosis.Finding) {
	if len(findings) < 2 {
		return
	}
	d.section(phrase.Of("Also").In(d.language))
	for _, finding := range findings[1:] {
		d.text(indent+phrase.Of("%s: %s%s", finding.Cause, finding.TextIn(d.language), examples(finding)).In(d.language), 2*len(indent))
		for _, advice := range finding.AdviceIn(d.language) {
			d.text(indent+indent+"- "+advice, 3*len(indent))
		}
	}
}

// joined joins words with commas.
func joined[T ~string](words []T) string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = string(word)
	}
	return strings.Join(out, ", ")
}

func (d *description) paint(report diagnosis.Report) string {
	if !d.style.color {
		return string(report.Status)
	}
	return statusColor(inventory.Job{Status: report.Status}) + string(report.Status) + colorReset
}

// headline returns the first finding, to be appended to the status of the job.
func headline(report diagnosis.Report, language phrase.Language) string {
	if len(report.Findings) == 0 {
		return ""
	}
	first := report.Findings[0]
	var out phrase.Text
	if string(first.Cause) != string(report.Status) {
		out = phrase.Of(" (%s)", first.Cause)
	}
	return out.And(": %s%s", first.TextIn(language), examples(first)).In(language)
}

func examples(finding diagnosis.Finding) phrase.Text {
	if len(finding.Examples) == 0 {
		return nil
	}
	text := phrase.Quote(strings.Join(finding.Examples, ", "))
	if more := finding.Nodes - len(finding.Examples); more > 0 {
		text = text.And(" and %d more", more)
	}
	return phrase.Of(" (%s)", text)
}

// changesFile reports whether any advice is to change the job's YAML.
func changesFile(findings []diagnosis.Finding) bool {
	return slices.ContainsFunc(findings, func(finding diagnosis.Finding) bool {
		return slices.ContainsFunc(finding.Steps, func(step diagnosis.Step) bool { return step.Action == reason.SetField })
	})
}

func (d *description) advise(advice []string) {
	if len(advice) == 0 {
		return
	}
	d.section(phrase.Of("What to do").In(d.language))
	for _, line := range advice {
		d.text(indent+"- "+line, 2*len(indent))
	}
}

// describeNearest writes the nodes that come closest to fitting the job.
func describeNearest(d *description, report diagnosis.Report) error {
	return describeRows(d, phrase.Of("Nearest nodes").In(d.language), report.NearMisses, nearMissColumns(d.language))
}

func nearMissColumns(language phrase.Language) []column[diagnosis.NearMiss] {
	type miss = diagnosis.NearMiss
	return []column[miss]{
		{header: phrase.Of("NODE").In(language), value: func(m miss) string { return m.Node }},
		{header: phrase.Of("GPUS").In(language), value: func(m miss) string { return m.Detail }},
		{header: phrase.Of("HELD BY").In(language), value: func(m miss) string {
			held := make([]string, 0, mostHolders+1)
			for i, holder := range m.Holders {
				if i == mostHolders {
					held = append(held, phrase.Of("%d more", len(m.Holders)-i).In(language))
					break
				}
				held = append(held, inShort(holder, language))
			}
			return strings.Join(held, ", ")
		}},
	}
}

// mostHolders is the maximum number of holders that a row names.
const mostHolders = 3

// inShort formats the holder of GPUs for a narrow column.
func inShort(h diagnosis.Holder, language phrase.Language) string {
	out := fmt.Sprintf("%s/%s %d", h.Namespace, cmp.Or(h.Job, h.Pod), h.GPUs)
	var more []string
	if h.Priority != "" {
		more = append(more, h.Priority)
	}
	if h.Ending {
		more = append(more, phrase.Of("ending").In(language))
	}
	if len(more) > 0 {
		out += " (" + strings.Join(more, ", ") + ")"
	}
	return out
}

func placementColumns(language phrase.Language) []column[diagnosis.Placement] {
	type placement = diagnosis.Placement
	return []column[placement]{
		{header: phrase.Of("POD").In(language), value: func(p placement) string { return p.Pod }},
		{header: phrase.Of("NODE").In(language), value: func(p placement) string { return p.Node }},
		{header: phrase.Of("POOL").In(language), value: func(p placement) string { return p.Pool }},
		{header: phrase.Of("GPU-TYPE").In(language), value: func(p placement) string { return p.Type }},
		{header: phrase.Of("GPUS").In(language), value: func(p placement) string { return deviceList(p.Devices) }},
		{header: phrase.Of("CONNECTED BY").In(language), value: func(p placement) string { return p.Connection }},
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
	title := phrase.Of("Scheduler's record of pod %s (%s, %s ago)", record.Name, whichAttempt(record), age(now, last.Time))
	d.section(title.In(d.language))
	if last.Result == explain.Placed {
		placed := phrase.Of("placed on %s", last.Node)
		if last.Feasible > 0 {
			placed = placed.And(", the best of %d nodes that could take it", last.Feasible)
		}
		fmt.Fprintln(d.out, indent+placed.In(d.language))
		if last.DevicesReason != "" {
			fmt.Fprintln(d.out, indent+phrase.Of("GPUs: %s", last.DevicesReason).In(d.language))
		}
		if len(last.Candidates) == 0 {
			return nil
		}
		return writeTable(&indented{out: d.out}, last.Candidates, candidateColumns(last.Candidates[0], d.language), d.style)
	}
	fmt.Fprintln(d.out, indent+phrase.Of("none of %d nodes could take it", last.Nodes).In(d.language))
	if len(last.Reasons) == 0 {
		return nil
	}
	return writeTable(&indented{out: d.out}, last.Reasons, []column[explain.Reason]{
		{header: phrase.Of("NODES").In(d.language), value: func(r explain.Reason) string { return strconv.Itoa(r.Nodes) }},
		{header: phrase.Of("REASON").In(d.language), value: func(r explain.Reason) string { return r.Text }},
	}, d.style)
}

// whichAttempt says which attempt the record is about, and whether the scheduler has explained it.
func whichAttempt(record explain.Record) phrase.Text {
	switch record.Explained {
	case 0:
		return phrase.Of("attempt %d, not looked into", record.Attempts)
	case record.Attempts:
		return phrase.Of("attempt %d", record.Attempts)
	}
	return phrase.Of("attempt %d of %d", record.Explained, record.Attempts)
}

// candidateColumns returns a column for each part of the score.
func candidateColumns(first explain.Candidate, language phrase.Language) []column[explain.Candidate] {
	type candidate = explain.Candidate
	columns := []column[candidate]{
		{header: phrase.Of("NODE").In(language), value: func(c candidate) string { return c.Node }},
		{header: phrase.Of("SCORE").In(language), value: func(c candidate) string { return strconv.FormatInt(c.Score, 10) }},
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
