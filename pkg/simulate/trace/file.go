package trace

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"
)

const gzipSuffix = ".gz"

// IsCSV identifies traces by their file name.
func IsCSV(path string) bool { return strings.HasSuffix(strings.TrimSuffix(path, gzipSuffix), ".csv") }

// Read returns the content of a file, unpacked if its name ends in .gz.
func Read(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(path, gzipSuffix) {
		return data, err
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", path, err)
	}
	if data, err = io.ReadAll(reader); err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", path, err)
	}
	return data, nil
}

// LoadNodes reads a node list of an openb trace.
func LoadNodes(path string) ([]Node, error) { return parseFile(path, ReadNodes) }

// LoadPods reads a pod list of an openb trace.
func LoadPods(path string) ([]Pod, error) { return parseFile(path, ReadPods) }

// LoadJobs reads a list of jobs in the form of Philly's. It returns none for another form.
func LoadJobs(path string) ([]*Job, error) {
	data, err := Read(path)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(data, []byte("timestamp,duration,")) {
		return nil, nil
	}
	jobs, err := ReadJobs(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return jobs, nil
}

func parseFile[T any](path string, read func(io.Reader) ([]T, error)) ([]T, error) {
	data, err := Read(path)
	if err != nil {
		return nil, err
	}
	all, err := read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}
