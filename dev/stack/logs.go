package stack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

const (
	temporalLogName = "temporal.log"
	kafkaLogName    = "kafka.log"
	// maxLogBytes is the size above which a start puts a log file aside.
	maxLogBytes = 16 << 20
)

// logFiles of the servers, warnings and errors only. At most one older file of
// each is kept.
type logFiles struct {
	temporal, kafka *logFile
}

// logFile can be written from any goroutine, also after it is closed: the
// Temporal server leaves goroutines behind that still log. What they say then
// is dropped.
type logFile struct {
	name string

	mu   sync.Mutex
	file *os.File // nil once closed
}

// Write implements io.Writer.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return len(p), nil
	}
	return l.file.Write(p)
}

func (l *logFile) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

func openLogs(d *dataDir) (*logFiles, error) {
	temporal, err := openLog(filepath.Join(d.path, temporalLogName))
	if err != nil {
		return nil, err
	}
	kafka, err := openLog(filepath.Join(d.path, kafkaLogName))
	if err != nil {
		return nil, errors.Join(err, temporal.close())
	}
	return &logFiles{temporal, kafka}, nil
}

func openLog(path string) (*logFile, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogBytes {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("put the old log aside: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return &logFile{name: path, file: f}, nil
}

func (l *logFiles) close() error { return errors.Join(l.temporal.close(), l.kafka.close()) }
