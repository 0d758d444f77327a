// Package cdi writes what containers get, as specs of the Container Device Interface, which the runtime reads when it
// creates a container. The specs are the agent's only memory: a record of which container holds which GPUs.
//
// Each container has a file of its own, named after its CDI device. A file appears whole or not at all: it is written
// beside its place, in the same folder, since the runtime's watch misses files that are moved in from elsewhere.
package cdi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
)

// Kind is the vendor and class of our devices.
const Kind = "g8s.host/gpu"

const (
	// versionAnnotations is the first one with annotations, versionGroups the first one with groups and resctrl. Runtimes
	// refuse a version that is newer than they are.
	versionAnnotations, versionGroups = "0.6.0", "0.7.0"
	// Prefix and suffix turn a device's name into a file name. The runtime only reads files with this suffix.
	Prefix, suffix = "g8s.host-gpu-", ".json"
	// recordAnnotation holds the record. Annotations of a spec do not affect the container.
	recordAnnotation = "g8s.host/record"
)

// namePattern matches names that the runtime accepts for a device, and that are safe as file names.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// Folder is a folder of CDI specs, such as /var/run/cdi.
type Folder struct{ Path string }

// Write makes a container's GPUs known to the runtime. Writing the same again changes nothing.
func (f Folder) Write(record *binding.Record, edits *specs.ContainerEdits) error {
	if !namePattern.MatchString(record.Name) {
		return fmt.Errorf("%.80q is no name of a CDI device", record.Name)
	}
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("writing a CDI spec: %w", err)
	}
	data, err := json.MarshalIndent(specs.Spec{
		Version: requiredVersion(edits), Kind: Kind, Annotations: map[string]string{recordAnnotation: string(text)},
		Devices: []specs.Device{{Name: record.Name, ContainerEdits: *edits}},
	}, "", " ")
	if err != nil {
		return fmt.Errorf("writing a CDI spec: %w", err)
	}
	path := f.specPath(record.Name)
	if before, err := os.ReadFile(path); err == nil && string(before) == string(data) {
		return nil
	}
	return replaceFile(path, data)
}

// requiredVersion returns the oldest version that has what the edits need.
func requiredVersion(edits *specs.ContainerEdits) string {
	if len(edits.AdditionalGIDs) > 0 || edits.IntelRdt != nil {
		return versionGroups
	}
	return versionAnnotations
}

// replaceFile writes a file whole or not at all.
func replaceFile(path string, data []byte) error {
	temporary := path + ".new"
	if err := writeAndRename(temporary, path, data); err != nil {
		return fmt.Errorf("writing a CDI spec: %w", errors.Join(err, removeIfExists(temporary)))
	}
	return nil
}

func writeAndRename(temporary, path string, data []byte) error {
	// It is world-readable: the container sees its content anyway.
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		// If the folder is on a disk, a power loss can keep the name but not the content of the file.
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// ReadRecords returns all records, by name. A file that cannot be parsed is an error that names it: its devices are unknown, so no GPU is known to be
// free.
func (f Folder) ReadRecords() ([]binding.Record, error) {
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return nil, fmt.Errorf("reading CDI specs: %w", err)
	}
	var records []binding.Record
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), Prefix) || !strings.HasSuffix(entry.Name(), suffix) {
			continue
		}
		record, err := readRecord(filepath.Join(f.Path, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return nil, fmt.Errorf("reading CDI specs: %s says not what it holds; remove it when no container uses it: %w", entry.Name(), err)
		}
		records = append(records, record)
	}
	return records, nil
}

func readRecord(path string) (binding.Record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return binding.Record{}, err
	}
	var spec specs.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		return binding.Record{}, err
	}
	var record binding.Record
	if err := json.Unmarshal([]byte(spec.Annotations[recordAnnotation]), &record); err != nil {
		return binding.Record{}, fmt.Errorf("annotation %s: %w", recordAnnotation, err)
	}
	if Prefix+record.Name+suffix != filepath.Base(path) || record.Pod == "" || len(record.Devices) == 0 {
		return binding.Record{}, fmt.Errorf("annotation %s is of another file", recordAnnotation)
	}
	return record, nil
}

// Remove removes a container's record. A missing record is no error.
func (f Folder) Remove(name string) error {
	return removeIfExists(f.specPath(name))
}

func (f Folder) specPath(name string) string { return filepath.Join(f.Path, Prefix+name+suffix) }

func removeIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// SweepTemporary removes temporary files of writers that were killed.
func (f Folder) SweepTemporary() error {
	left, err := filepath.Glob(filepath.Join(f.Path, Prefix+"*.new"))
	var errs []error
	for _, path := range left {
		errs = append(errs, removeIfExists(path))
	}
	return errors.Join(append(errs, err)...)
}
