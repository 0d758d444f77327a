// Package supportbundle collects what a maintainer needs into one file, without secrets: it reads no Secret, and [RedactObject] and [RedactText]
// remove from everything else the values of variables, commands and annotations of others, and anything that looks like a token, a password or a key.
// What may not be read, or is too large, is noted in the file and left out.
package supportbundle

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

const (
	// pageSize is the number of objects per list request.
	pageSize = "250"
	// maxItemBytes and maxLogBytes limit one file of the bundle, and maxBundleBytes all of them, in uncompressed bytes.
	maxItemBytes   = 32 << 20
	maxLogBytes    = 2 << 20
	maxBundleBytes = 256 << 20
)

// Entry describes one file of the bundle.
type Entry struct {
	Name  string `json:"name"`
	What  string `json:"what"`
	Bytes int    `json:"bytes"`
	// Cut says that the file is truncated.
	Cut bool `json:"cut,omitempty"`
	// Error is why the file is missing.
	Error string `json:"error,omitempty"`
}

// Bundler writes one bundle.
type Bundler struct {
	// REST is a client for arbitrary paths of the API server.
	REST rest.Interface
	// Report is called with what is read next.
	Report func(what phrase.Text)
	// Server is the namespace of gpuctl-server, from [doctor.ServerNamespace].
	Server string
	Now    func() time.Time

	out     *tar.Writer
	size    int
	entries []Entry
}

// Write reads the cluster and writes a .tar.gz with the results and with more files, by name, whose values are written as JSON. The entries list the
// content; the error is only about writing, or that of ctx.
func (b *Bundler) Write(ctx context.Context, to io.Writer, more map[string]any) ([]Entry, error) {
	packed := gzip.NewWriter(to)
	b.out = tar.NewWriter(packed)
	for _, name := range []string{"version.json", "doctor.json"} {
		said, err := toJSONValue(more[name])
		if err != nil {
			return nil, err
		}
		if err := b.putJSON(name, "what gpuctl says", RedactObject(b.Server, said)); err != nil {
			return nil, err
		}
	}
	pods, err := b.writeItems(ctx, installedItems(b.Server))
	if err != nil {
		return nil, err
	}
	if err := b.addLogs(ctx, pods); err != nil {
		return nil, err
	}
	if err := b.addMetrics(ctx, pods); err != nil {
		return nil, err
	}
	if _, err := b.writeItems(ctx, clusterItems); err != nil {
		return nil, err
	}
	if err := b.putJSON("index.json", "what is in the bundle", map[string]any{"files": b.entries}); err != nil {
		return nil, err
	}
	if err := b.out.Close(); err != nil {
		return nil, phrase.Errorf("writing the bundle: %w", err)
	}
	if err := packed.Close(); err != nil {
		return nil, phrase.Errorf("writing the bundle: %w", err)
	}
	return b.entries, nil
}

// writeItems writes the objects of each item, and returns our pods among them.
func (b *Bundler) writeItems(ctx context.Context, items []Item) (pods []any, err error) {
	for _, item := range items {
		b.Report(item.Message())
		objects, cut, err := b.listObjects(ctx, item)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			b.entries = append(b.entries, Entry{Name: item.Name, What: item.What, Error: RedactText(err.Error())})
			continue
		}
		if slices.Contains([]string{objectFile(ourPods), objectFile(serverPods), objectFile(agentPods)}, item.Name) {
			pods = append(pods, objects...)
		}
		if err := b.putJSON(item.Name, item.What, map[string]any{"items": objects}); err != nil {
			return nil, err
		}
		b.entries[len(b.entries)-1].Cut = cut
	}
	return pods, nil
}

// listObjects reads the objects of an item, page by page, up to the size limit.
func (b *Bundler) listObjects(ctx context.Context, item Item) (objects []any, cut bool, err error) {
	objects = []any{}
	query := url.Values{"limit": {pageSize}}
	for key, values := range item.query {
		query[key] = values
	}
	size := 0
	for {
		data, err := b.getPath(ctx, item.path, query, maxItemBytes)
		if err != nil {
			return nil, false, err
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []map[string]any `json:"items"`
			Kind  string           `json:"kind"`
		}
		if err := json.Unmarshal(data, &page); err != nil {
			return nil, false, phrase.Errorf("reading %s: %w", item.path, err)
		}
		for _, object := range page.Items {
			if page.Kind == "ConfigMapList" {
				object["kind"] = "ConfigMap" // lists omit the kind of their items
			}
			objects = append(objects, RedactObject(b.Server, object))
		}
		if size += len(data); page.Metadata.Continue == "" {
			return objects, false, nil
		}
		if size > maxItemBytes/2 {
			return objects, true, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// getPath reads a path of the API server.
func (b *Bundler) getPath(ctx context.Context, path string, query url.Values, most int64) ([]byte, error) {
	request := b.REST.Get().AbsPath(path).SetHeader("Accept", "application/json")
	for key, values := range query {
		for _, value := range values {
			request = request.Param(key, value)
		}
	}
	stream, err := request.Stream(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // the error is complete
	}
	defer func() { _ = stream.Close() }() // opened for reading only
	data, err := io.ReadAll(io.LimitReader(stream, most+1))
	if err == nil && int64(len(data)) > most {
		err = phrase.Errorf("it is larger than %d MiB", most>>20)
	}
	return data, err //nolint:wrapcheck // the error is complete
}

func objectName(object any) (namespace, name string) {
	fields, _ := object.(map[string]any)
	meta, _ := fields["metadata"].(map[string]any)
	namespace, _ = meta["namespace"].(string)
	name, _ = meta["name"].(string)
	return namespace, name
}

// toJSONValue converts a value to its JSON representation.
func toJSONValue(value any) (said any, err error) {
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, &said)
	}
	if err != nil {
		return nil, phrase.Errorf("writing what gpuctl says: %w", err)
	}
	return said, nil
}

func (b *Bundler) putJSON(name, what string, value any) error {
	data, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		return phrase.Errorf("writing %s: %w", name, err)
	}
	return b.addFile(name, what, data)
}

// addFile writes a file, unless the bundle is full.
func (b *Bundler) addFile(name, what string, data []byte) error {
	if b.size += len(data); b.size > maxBundleBytes && name != "index.json" {
		b.entries = append(b.entries, Entry{Name: name, What: what, Error: "the bundle is full"})
		return nil
	}
	b.entries = append(b.entries, Entry{Name: name, What: what, Bytes: len(data)})
	header := &tar.Header{Name: "gpuctl-support/" + name, Mode: 0o600, Size: int64(len(data)), ModTime: b.Now()}
	if err := b.out.WriteHeader(header); err != nil {
		return phrase.Errorf("writing the bundle: %w", err)
	}
	if _, err := b.out.Write(data); err != nil {
		return phrase.Errorf("writing the bundle: %w", err)
	}
	return nil
}
