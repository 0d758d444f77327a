package trace

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
)

// Job is one request of a trace: a gang that runs for Runtime once all its pods have GPUs.
type Job struct {
	// ID is the job's place in the order of submission, from 0. Jobs of the same instant keep the order of the file.
	ID int
	// Submit is when the job arrives, from the first submission of the trace.
	Submit time.Duration
	// Runtime is how long the job runs. No scheduler knows it: a policy that reads it is clairvoyant, a baseline only.
	Runtime time.Duration
	// GPUs is what all pods of the job ask together, 1 or more.
	GPUs int
	// VC is the virtual cluster, i.e. the tenant, that the job was submitted to.
	VC string
}

// columns of a trace in the format of Philly's job list as Pollux published it, in order. Others may follow.
var columns = []string{"timestamp", "duration", "num_gpus", "gpu_time", "cluster"}

// timestamps are local times without a zone.
const timestamps = "2006-01-02 15:04:05"

// MaxRuntime bounds the duration of a job, so that no sum of times overflows: 10 years.
const MaxRuntime = 10 * 365 * 24 * time.Hour

// ReadJobs reads a CSV file with the columns timestamp, duration (s), num_gpus, gpu_time (GPU-s) and cluster, in any
// order of rows, and returns the jobs in order of submission. An error names the line and the column.
func ReadJobs(r io.Reader) ([]*Job, error) {
	rows := csv.NewReader(r)
	rows.ReuseRecord = true
	if err := readHeader(rows); err != nil {
		return nil, err
	}
	var jobs []*Job
	var submits []time.Time
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the trace: %w", err) // csv's errors name the line
		}
		job, submit, err := parseJob(row)
		if err != nil {
			line, _ := rows.FieldPos(0)
			return nil, fmt.Errorf("reading the trace: line %d: %w", line, err)
		}
		jobs, submits = append(jobs, job), append(submits, submit)
	}
	if len(jobs) == 0 {
		return nil, errors.New("reading the trace: it has no jobs, only a header")
	}
	return inOrder(jobs, submits), nil
}

func readHeader(rows *csv.Reader) error {
	header, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return errors.New("reading the trace: it is empty")
	}
	if err != nil {
		return fmt.Errorf("reading the trace: %w", err)
	}
	if len(header) < len(columns) || !slices.Equal(header[:len(columns)], columns) {
		return fmt.Errorf("reading the trace: line 1: the columns are %q, want %q", header, columns)
	}
	return nil
}

func parseJob(row []string) (*Job, time.Time, error) {
	submit, err := time.Parse(timestamps, row[0])
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("timestamp %q: want a time such as 2017-10-09 07:01:55", row[0])
	}
	seconds, err := strconv.ParseFloat(row[1], 64)
	if err != nil || !(seconds >= 0 && seconds <= MaxRuntime.Seconds()) {
		return nil, time.Time{}, fmt.Errorf("duration %q: want seconds, 0 to %.0f", row[1], MaxRuntime.Seconds())
	}
	gpus, err := strconv.Atoi(row[2])
	if err != nil || gpus < 1 || gpus > math.MaxInt32 {
		return nil, time.Time{}, fmt.Errorf("num_gpus %q: want a whole number, 1 or more", row[2])
	}
	runtime := time.Duration(math.Round(seconds * float64(time.Second)))
	return &Job{Runtime: runtime, GPUs: gpus, VC: row[4]}, submit, nil
}

// inOrder sorts jobs by their submission, and counts time and IDs from the first.
func inOrder(jobs []*Job, submits []time.Time) []*Job {
	first := slices.MinFunc(submits, time.Time.Compare)
	for i, job := range jobs {
		job.Submit = submits[i].Sub(first)
	}
	slices.SortStableFunc(jobs, func(a, b *Job) int { return cmp.Compare(a.Submit, b.Submit) })
	for i, job := range jobs {
		job.ID = i
	}
	return jobs
}
