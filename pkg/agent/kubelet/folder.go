package kubelet

import (
	"log/slog"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// folder tells when sockets come and go in kubelet's folder of device plugins.
type folder struct {
	watcher *fsnotify.Watcher
	// changed is nil where the system cannot tell: who waits for it looks from time to time as well.
	changed chan struct{}
	done    sync.WaitGroup
}

func watchFolder(path string, log *slog.Logger) *folder {
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		if err = watcher.Add(path); err != nil {
			_ = watcher.Close()
		}
	}
	if err != nil {
		log.Warn("Watching kubelet's folder: a kubelet that restarts is found a little later", "folder", path, "error", err)
		return &folder{}
	}
	f := &folder{watcher: watcher, changed: make(chan struct{}, 1)}
	f.done.Go(f.run)
	return f
}

// run passes on that something happened. Errors, such as that too much happened at once, count as well.
func (f *folder) run() {
	for {
		select {
		case event, ok := <-f.watcher.Events:
			switch {
			case !ok:
				return
			case !strings.HasSuffix(event.Name, ".sock"):
				continue // kubelet's checkpoint
			}
		case _, ok := <-f.watcher.Errors:
			if !ok {
				return
			}
		}
		select {
		case f.changed <- struct{}{}:
		default:
		}
	}
}

func (f *folder) close() {
	if f.watcher == nil {
		return
	}
	_ = f.watcher.Close()
	f.done.Wait()
}
