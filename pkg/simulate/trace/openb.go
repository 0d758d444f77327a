// Package trace reads the input of a simulation in formats other than Kubernetes' own objects: the lists of nodes and pods of Alibaba's
// cluster-trace-gpu-v2023 ("openb"), and lists of jobs in the form of Microsoft's Philly, as CSV with a header, packed with gzip or not. It also has
// the protocol by which pods arrive in the work of Weng et al. ("Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
// Gradient Descent", USENIX ATC'23), who published the openb lists, and the series in which they give their results.
package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MilliPerGPU is one whole GPU in the unit of the trace.
const MilliPerGPU = 1000

// Node is one machine.
type Node struct {
	Name string
	// MilliCPU is in thousandths of a core.
	MilliCPU  int64
	MemoryMiB int64
	GPUs      int64
	// Model is the type of the GPUs, "" for a machine without.
	Model string
}

// Pod is one request.
type Pod struct {
	Name string
	// MilliCPU is in thousandths of a core.
	MilliCPU  int64
	MemoryMiB int64
	// GPUs is how many different GPUs the pod runs on, 0 for none.
	GPUs int64
	// MilliGPU is the share of each of these GPUs, 1–1000; always 1000 for several.
	MilliGPU int64
	// Models are the GPU models that the pod may run on; empty is any.
	Models []string
	// Created and Deleted are when the pod came and went, from the start of the trace. Both are 0 in lists
	// without times.
	Created, Deleted time.Duration
}

// TotalMilliGPU is what the pod asks of all its GPUs together.
func (p *Pod) TotalMilliGPU() int64 { return p.GPUs * p.MilliGPU }

// ReadNodes reads a node list. Its columns are sn, cpu_milli, memory_mib, gpu and model.
func ReadNodes(from io.Reader) ([]Node, error) {
	return readRecords(from, []string{"sn", "cpu_milli", "memory_mib", "gpu"}, func(r *row) Node {
		return Node{
			Name: r.textField("sn"), MilliCPU: r.numberField("cpu_milli"), MemoryMiB: r.numberField("memory_mib"),
			GPUs: r.numberField("gpu"), Model: r.textField("model"),
		}
	})
}

// ReadPods reads a pod list. It needs the columns name, cpu_milli, memory_mib, num_gpu and gpu_milli; gpu_spec,
// creation_time and deletion_time, in seconds, may be absent.
func ReadPods(from io.Reader) ([]Pod, error) {
	return readRecords(from, []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}, func(r *row) Pod {
		pod := Pod{
			Name: r.textField("name"), MilliCPU: r.numberField("cpu_milli"), MemoryMiB: r.numberField("memory_mib"),
			GPUs: r.numberField("num_gpu"), MilliGPU: r.numberField("gpu_milli"), Models: r.modelsField("gpu_spec"),
			Created: r.secondsField("creation_time"), Deleted: r.secondsField("deletion_time"),
		}
		switch {
		case pod.GPUs == 0:
			pod.MilliGPU = 0
		case pod.MilliGPU < 1 || pod.MilliGPU > MilliPerGPU:
			r.setError("gpu_milli", "want 1 to 1000")
		case pod.GPUs > 1 && pod.MilliGPU != MilliPerGPU:
			r.setError("gpu_milli", "want 1000 for several GPUs")
		}
		return pod
	})
}

// row is one record and the columns that it is read by. It keeps its first error.
type row struct {
	columns map[string]int
	fields  []string
	err     error
}

// readRecords reads all records. An error names the line and the column.
func readRecords[T any](from io.Reader, required []string, parse func(*row) T) ([]T, error) {
	reader := csv.NewReader(from)
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("reading the header: the list is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the header: %w", err)
	}
	columns := make(map[string]int, len(header))
	for i, name := range header {
		columns[name] = i
	}
	for _, name := range required {
		if _, ok := columns[name]; !ok {
			return nil, fmt.Errorf("reading the header %q: no column %s", strings.Join(header, ","), name)
		}
	}
	var all []T
	for {
		fields, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		r := row{columns: columns, fields: fields}
		item := parse(&r)
		if r.err != nil {
			line, _ := reader.FieldPos(0)
			return nil, fmt.Errorf("reading line %d: %w", line, r.err)
		}
		all = append(all, item)
	}
}

func (r *row) textField(column string) string {
	if i, ok := r.columns[column]; ok {
		return r.fields[i]
	}
	return ""
}

// numberField reads a whole number, 0 if the field is empty. Numbers fit in 31 bits, so that sums of millions do not overflow.
func (r *row) numberField(column string) int64 {
	text := r.textField(column)
	if text == "" {
		return 0
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 0 || number > math.MaxInt32 {
		r.setError(column, "want a whole number from 0 to 2147483647")
	}
	return number
}

// secondsField reads a time, which some lists write with a fraction.
func (r *row) secondsField(column string) time.Duration {
	text := r.textField(column)
	if text == "" {
		return 0
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0 && seconds <= math.MaxInt32) {
		r.setError(column, "want seconds from 0 to 2147483647")
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}

func (r *row) modelsField(column string) []string {
	return slices.DeleteFunc(strings.Split(r.textField(column), "|"), func(model string) bool { return model == "" })
}

func (r *row) setError(column, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("column %s is %q: %s", column, r.textField(column), want)
	}
}
