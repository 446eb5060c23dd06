"""The old home of `support`."""

from __future__ import annotations

from .support import MAX_PORT as MAX_PORT
from .support import check_callable as check_callable
from .support import check_count as check_count
from .support import check_headers as check_headers
from .support import check_items as check_items
from .support import check_number as check_number
from .support import check_seconds as check_seconds
from .support import check_serve as check_serve
from .support import check_texts as check_texts
from .support import check_type as check_type
from .support import checked_path as checked_path
